"""German, French, Spanish and Chinese cues, in the notation of the English ones."""

GERMAN = {
    "length": r"""
(zu|viel zu|so|echt|extrem|unnötig|sehr|etwas zu) (lang|länglich|ausführlich|wortreich|umständlich|langatmig
    |weitschweifig|viel (text|zu lesen|info)|viele (worte|wörter|details))\w*
(kürzer|knapper|kurz fassen|kurz und (knapp|bündig)|kurzfassung|kurzversion|auf den punkt
    |komm(en sie)? (bitte )?(zum|auf den) punkt|kurze antwort\w*)
fass(en|t|e)? (dich|sie|sich|es|das|euch)?.{0,12}(kurz|kürzer|zusammen)
halt(e|en)? (dich|es|sie|sich)?.{0,12}(kurz|kürzer)
((das ist|ist) ein|einen|ganzer|ganzen|halber|halben|keinen|gleich) roman\w*|textwand|aufsatz|geschwafel|schwafel\w*
gelaber|laber\w*|langatmig|langweilig
(ein|zwei) (kurzer |kurze )?(satz|sätze|wort|worte) (reicht|reichen|genügt|genügen|hätte|hätten|wäre|bitte)
in (einem|zwei) (satz|sätzen|wort)|nur das (wichtigste|wesentliche|ergebnis)
(das )?(will|liest|soll|kann)( doch)?( ja)? (keiner|niemand|wer|kein mensch)\b.*|wer soll das( alles)? lesen
weniger (text|worte|wörter|details|ausführlich)|so viel text|keine zeit\b.*lesen
(nicht|nur bis) .*(zu ende|fertig) gelesen|kürz(e|en)? (das|es|bitte).*
?kurz\w*|knapp\w*|bündig|lang\w*|zusammenfass\w+|stichwort\w*
""",
    "format": r"""
(falsches|schlechtes|anderes|nicht das (richtige|gewünschte)) format
(keine|ohne|bitte keine|lass die) (\w+ )?(aufzählung\w*|stichpunkte|tabellen?|emojis?|sternchen|markdown
    |listen?|überschriften)
(ich wollte|ich brauche|bitte|ich bat um|ich hatte) .{0,20}(als |eine? )(liste|tabelle|stichpunkte|json
    |fließtext)
als (liste|tabelle|fließtext|json|stichpunkte),? (bitte|nicht)|formatierung (ist|stimmt|passt)\b.*
?als (liste|tabelle|stichpunkte|fließtext|json)|formatier\w+|stichpunkte
""",
    "language": r"""
(auf|in) (deutsch|englisch|französisch|spanisch),? ?(bitte|antworten|nicht)
bitte (nur )?(auf )?(deutsch|englisch)|falsche sprache
warum (antwortest|schreibst|sprichst)?.{0,12}(englisch|französisch|spanisch)
ich (spreche|verstehe|kann) (kein|nur) \w+
(antworte|schreib|sprich|rede|antworten sie|wechsle)( mir| bitte| doch| wieder)* (auf |in |zu )?(deutsch
    |englisch)
nicht (auf )?(englisch|französisch|spanisch)|ich schreibe (doch )?(auf )?deutsch
?(auf )?(deutsch|englisch)
""",
    "tone": r"""
(zu|so|echt|ganz schön|bitte|sehr|etwas|ziemlich|weniger|nicht so) (unhöflich|förmlich|unfreundlich|frech
    |herablassend|arrogant|formell|locker|salopp|steif|höflicher|freundlicher|schroff|patzig)
unhöflich\w*|herablassend|unverschämt\w*|(höflicher|freundlicher|netter|sachlicher|professioneller)( bitte)?
(der|den|im|diesen|diesem|ihr|dein) ton\w*|siezen|duz(en|t|e)?\b.*
""",
    "missing_question": r"""
(hättest|hätten|solltest|sollten) (du|sie) .{0,25}(fragen|gefragt|nachfragen|nachgefragt|bestätig\w+|abklären
    |abgeklärt)
warum (hast|haben|fragst|fragen) (du|sie) .{0,20}(nicht|gefragt|fragen|nach)\w*
ohne (zu fragen|rückfrage|nachzufragen|mich zu fragen|(meine )?(zustimmung|bestätigung|erlaubnis))
(erst|vorher|zuerst|nächstes mal|bitte) (nach)?(fragen|gefragt)
frag(en sie)? (mich )?(bitte )?(erst|vorher|das nächste mal|zuerst|nach)
(nicht|mich) (vorher |nach|erst )?gefragt|(einfach|nicht) (so )?(angenommen|annehmen|raten|geraten)
""",
    "wrong_entity": r"""
(falsche|verkehrte)[rnms]? (bestellung|kunde|kundin|kunden|datei|stadt|person|datum|konto|name|nummer|adresse
    |artikel|produkt|tag|jahr|ordner|land|version|zimmer|flug)
verwechsel\w+|nicht (der|die|das|den) (richtige|gemeinte)\w*|ich meinte\b.*
(nein,? )?(den|die|das|der) andere[nrs]?|nicht (den |die |das |der |nach |in )?\w+, sondern
""",
    "generic": r"""
falsch|stimmt (so |doch |leider )?nicht|(das|es) ist nicht (richtig|korrekt|was|das)
nicht (richtig|korrekt|das,? was|was ich)|(funktioniert|klappt|geht|passt|hilft) .{0,20}nicht(?! mehr)
(du hast|sie haben|hast du|haben sie) .{0,40}(vergessen|übersehen|ignoriert|missverstanden|falsch|überlesen)
missverst\w+|unsinn|quatsch|blödsinn|(das|so) (wollte|meinte|war) (ich )?(nicht|das nicht)
ich habe (doch |dir |ihnen )*(gesagt|gefragt|nicht)
nochmal,? (bitte|aber)|versuch(s|e)? (es )?(noch ?mal|erneut)|fehler (gemacht|drin|in|im)|so nicht
immer noch (falsch|nicht)|unbrauchbar|bitte nicht
^nein[ ,.!]+(?!danke|das (ist|war|wars) (alles|s)|das wars|nichts)\w|^nein[.!]*$|danach habe ich nicht gefragt
am thema vorbei
steht (doch |ja )?(schon |bereits |alles )?oben|wie (schon |bereits |oben )?(gesagt|erwähnt|geschrieben|gewünscht)
(hatte|habe) ich (doch |ja |aber )*(schon |bereits |ausdrücklich |extra )+(gesagt|erwähnt|geschrieben|angegeben)
fehlt (aber|allerdings|immer noch|noch)
noch (aber|allerdings) .{0,20}fehlt|(das )?war so nicht (gewollt|gemeint|bestellt|gewünscht)
(danke|super|top|prima|passt|perfekt|schön|gut|stimmt)\b.{0,50}\b(aber|allerdings|nur dass|jedoch|bloß)\b
?eigentlich|nochmal|nicht ganz
""",
}

FRENCH = {
    "length": r"""
(trop|beaucoup trop|bien trop|vraiment|si|tellement|un peu) (long|longue|longs|longues|bavarde?|verbeux
    |verbeuse|de texte|de mots|de lecture|détaillée?|de détails)
plus (court|courte|courts|bref|brève|concis|concise|succinct|simple)s?|abrège[zr]?
fai(s|tes) (plus )?(court|bref)|soi(s|yez) (plus |un peu plus )?(bref|brève|concis|concise|court)s?
droit au but|(va|allez|viens|venez) (à lessentiel|au but|au fait)
(en|une|deux) (une |seule |deux )*phrases?( suffi\w+| aurai\w+| sil\b.*| svp.*| stp.*)
(juste|seulement|que) lessentiel|un (vrai )?(roman|pavé|livre)|pavé|raccourci\w*|pas besoin d(autant|e tout)
blabla|résume[rz]?( un peu| moi| ça| tout ça|-moi)?.{0,12}|moins (long|de texte|de mots|bavard)
(jai|je nai pas) .{0,20}(arrêté de|pas fini de|tout) lu?(lire)?|personne ne (lit|va lire)\b.*
?court\w*|bref|brève|concis\w*|résum\w+|long\w*
""",
    "format": r"""
(mauvais|pas le bon|autre) format
(sans|pas de|arrête avec les|plus de) (puces|listes?|tableaux?|markdown|emojis?|astérisques|titres)
(je voulais|jai demandé|javais demandé|il me faut) (un |une |des |les )(puces|liste|tableau|json)
(sous forme de|en|dans un) (liste|tableau|json),? (sil|svp|pas|stp).*
?(en|sous forme de) (liste|tableau|json)|formatage
""",
    "language": r"""
en (français|anglais|espagnol|allemand),? (sil|svp|stp|pas|merci).*|mauvaise langue
pourquoi .{0,20}(en )?(anglais|allemand|espagnol)|je ne (parle|comprends|lis) pas (l|le )?\w+
(répond(s|ez)|parle[zs]?|écri(s|vez))(-moi| moi)? (en )?(français|anglais)|pas en (anglais|allemand|espagnol)
?en (français|anglais)
""",
    "tone": r"""
(trop|très|si|plutôt|plus|moins|un peu|assez) (impolie?|formel|formelle|familier|familière|condescendante?
    |froide?|arrogante?|sec|sèche|polie?|poliment|aimable|agressif)
impolie?|malpolie?|condescendante?|sur ce ton|(le|ton|votre|ce) ton( est| trop| plus)?.{0,12}|vouvoie[zr]?\b.*
(ne )?(me )?tutoie[zr]?\b.*
""",
    "missing_question": r"""
(tu aurais|vous auriez) (dû|pu) .{0,20}(demand|confirm|vérifi)\w*
pourquoi .{0,30}pas (demandé|confirmé|vérifié)|il fallait (me )?(demander|confirmer)\b.*
sans (me |mavoir )?(demand|consult|confirm)\w*|sans mon (accord|avis)
demande[zr]?(-moi)? (dabord|avant|la prochaine).*|tu as supposé
""",
    "wrong_entity": r"""
(mauvais|mauvaise|pas le bon|pas la bonne) (commande|client|cliente|fichier|ville|personne|date|compte|nom
    |numéro|adresse|article|produit|dossier|pays|vol)
(tu|vous) .{0,8}confond\w*|je parl(ais|e) d\w*.*|je voulais dire\b.*|pas cel(ui|le)-?( )?(là|ci)
(non,? )?lautre
""",
    "generic": r"""
cest (faux|pas (ça|ca|correct|bon|juste|vrai|ce que)|incorrect|inexact|nimporte quoi|inutile)|ce nest pas
(ça|ca) (ne )?(marche|fonctionne|va) (toujours )?pas|pas (du tout )?ce que (j|je)\w*|pas ma question|faux
incorrect
(tu|vous) .{0,10}(oublié|mal compris|ignoré|trompé|trompée|trompez)|tu nas pas|vous navez pas
(une|ton|votre) erreur|je? ?(t|vous )?(ai|avais) (déjà )?(dit|demandé)|jai (dit|demandé)|recommence[zr]?|refais
encore faux|malentendu|je nai pas (demandé|dit)|je ne voulais pas|^non[ ,.!]+(?!merci|cest (tout|bon))\w
comme je (vous|te|lai|lavais|lai) ?(le |déjà )?(dis\w*|disais|dit|demandé|écrit|indiqué|signalé)
(vous|tu) (disiez|disais|aviez dit|avais dit)|(devait|devaient|aurait dû|fallait) (rester|y être|être|figurer)
(merci|parfait|super|très bien|bien reçu|impeccable|génial)\b.{0,80}\b(mais|toutefois|par contre|en revanche
    |cependant|sauf que)\b
^non[.!]*$|hors sujet|à côté de la plaque
?en fait|presque|pas tout à fait
""",
}

SPANISH = {
    "length": r"""
(demasiado|muy|tan|bastante|super|un poco) (larg[oa]s?|extens[oa]s?|texto|detallad[oa]|detalle)
más (cort[oa]|breve|concis[oa]|resumid[oa]|simple|directo)s?|sé (más |un poco más )?(breve|concis[oa])
sea (más )?breve
(ve|vaya|vamos|ir) al grano|al grano
(en |una |dos |sola )+(frase|línea|palabra)s?( basta\w*| es suficiente| por favor| bastaría| habría\w*| sobra
    | hubiera\w*)?
(mucho|demasiado|tanto) (texto|rollo)|tantas palabras|una novela|un testamento|la biblia|la versión corta
solo lo (esencial|importante)|menos (texto|palabras|rollo)|qué rollo|resúm\w+|resum(e|ir|ido|elo)\b.*|acórta\w*
acort\w+|no (voy a|pienso|puedo|tengo tiempo\b.*) leer.*|te enrollas|nadie (lee|va a leer)\b.*|dejé de leer\b.*
?cort[oa]s?|breve|concis[oa]|resum\w+|larg[oa]
""",
    "format": r"""
formato (incorrecto|equivocado|malo)|mal formato
(sin|no uses|deja de usar|nada de) (viñetas|listas?|tablas?|markdown|emojis?|asteriscos|negritas)
(pedí|quería|necesito|te pedí) una (lista|tabla)|en (forma de |una )?(lista|tabla|json),? por favor
?en (forma de )?(lista|tabla|json)|formato|viñetas
""",
    "language": r"""
en (español|inglés|castellano),? (por favor|no|porfa)|idioma (equivocado|incorrecto)
(por qué|porque) .{0,20}en (inglés|francés|alemán)|no (hablo|entiendo|sé)( el)? (inglés|francés|alemán)
(responde|contesta|habla|escribe)(me)? (solo )?en (español|inglés|castellano)|no en (inglés|francés)
?en (español|inglés|castellano)
""",
    "tone": r"""
(demasiado|muy|tan|más|menos|un poco) (grosero|grosera|formal|informal|frío|fría|arrogante|condescendiente
    |maleducado|educado|educada|amable|cortés|borde|seco|seca)
groser[oa]|maleducad[oa]|condescendiente|(ese|el|tu|este) tono|(no )?me tutees|falta de respeto
""",
    "missing_question": r"""
(deberías|debiste|tendrías que|debería|podrías) (haber(me)? )?(preguntado|preguntar|preguntarme|confirmado
    |confirmar|consultado)
(por qué|porque) no (me )?(preguntaste|has preguntado|confirmaste|preguntas)
sin (preguntar(me)?|confirmar|mi permiso|consultar(me)?|avisar)|pregúnta(me)? (primero|antes)
pregunta (primero|antes)|no (me )?(preguntaste|confirmaste)|no (des por hecho|supongas|asumas)|diste por hecho
""",
    "wrong_entity": r"""
(pedido|cliente|archivo|ciudad|persona|fecha|cuenta|nombre|número|dirección|producto|carpeta|país|vuelo)
     (equivocad|incorrect|erróne)[oa]
te (has )?confund\w+|confundiste|me refería (a|al)\b.*|no (ese|esa|este|esta),?.*|(no,? )?(el otro|la otra)
quise decir\b.*|no es mi (pedido|cuenta|nombre|archivo|vuelo|dirección)
""",
    "generic": r"""
está mal|(eso|esto) no (es|funciona|sirve|está)|es (incorrecto|falso|un error|mentira)
no es (lo que|correcto|cierto|así|verdad|eso)
no (funciona|sirve|me sirve|entendiste|respondiste|has entendido|has respondido|me (ayuda|ayudas))
te (equivocas|has equivocado|equivocaste|olvidaste|has olvidado)|olvidaste|mal ?entendido|te (dije|pedí)
yo (dije|pedí|quería)|inténtalo (de nuevo|otra vez)|otra vez mal|sigue (mal|sin|fallando)|(hay|tiene) un error
incorrecto|equivocad[oa]|no (quería|pedí)
(ya )?(se|te) (lo|la|los|las)? ?(había |he )?(dije|dicho|puse|pedí|pedido|comenté|comentado|expliqué)|(por eso
    |como) (te|le|os|les) (decía|dije|di|dijo)
sigue (solo|igual|saliendo|apareciendo|en)|falta(n)? (el|la|los|las|aún|todavía)\b
(gracias|perfecto|genial|bien|vale|listo|bueno)\b.{0,80}\b(pero|aunque|sin embargo|solo que|salvo que)\b
^no[ ,.!]+(?!gracias|eso es todo|es todo|nada|hay)(así|eso|es|está|quiero|me)\b|nada que ver
?en realidad|casi|no del todo
""",
}

CHINESE = {
    "length": r"""
太长|太啰嗦|啰嗦|罗嗦|囉嗦|太長|太多字|字太多|字数太多|长篇大论|長篇大論|简短|簡短|简洁|簡潔|精简|精簡|短一点
    |短一點|短点|短些|说重点|說重點|讲重点|挑重点|重点是什么|长话短说|長話短說|废话|廢話
看不完|懒得看|懶得看|不想看这么|缩短|少说点|言简意赅|这么长|這麼長|这么多字|太繁琐|没耐心看|写小作文|小作文
一句话(就|即可|够|回答|说|概括|行)|别写(那么|这么)多
?总结|一句话|简单(点|说)|太多|长|短
""",
    "format": r"""
格式(不对|错|有问题|不正确|乱|不對|錯)|不要用?(列表|表格|markdown|表情|项目符号|代码块|标题)|(我要|请用
    |要用)(的是)?(列表|表格|json|纯文本)
用(列表|表格)(格式|形式)?(吧|回答|列出来|就好|给我)
?列表|表格|格式
""",
    "language": r"""
(请|請|用|说|說|讲)(用)?(中文|英文|英语|法语|德语|日语|繁体|简体)(回答|回复|说|讲|吧|回覆|$|。|!)|看不懂(英文
    |英语|外语|德文)|为什么(用|说|是)(英文|英语)
不要(用|说)(英文|英语)|我(说|讲|问)的是中文|语言(不对|错)|别用英文
?中文|英文
""",
    "tone": r"""
太(粗鲁|没礼貌|正式|随便|冷淡|生硬|傲慢|不礼貌|官方|敷衍)|没礼貌|没有礼貌|不礼貌|礼貌(点|一点|一些)|语气|口气
    |态度|態度|客气(点|一点)|别这么(正式|冷)|阴阳怪气
""",
    "missing_question": r"""
(应该|应该先|應該|怎么不|为什么不|為什麼不|怎么没|没有?)(先|事先)?(问|問|确认|確認|征求|询问)(我|一下|清楚|过|$
    |。|!|\?)
(请|要|下次)?(先|事先)(问|問|确认|跟我)(我|一下|$)|没经过我(同意|允许)|(别|不要)(乱|瞎|自己)?(猜|假设|编)
    |自作主张|擅自
""",
    "wrong_entity": r"""
(搞|弄|写|选|认|发|找)(错|錯)|错(人|文件|订单|城市|账号|日期|名字|地方)|(订单|文件|城市|人|日期|账号|名字|地址
    |地方)(错|錯)|不是(这|那|這)个?|我(说|指|问|要)的是
我是(说|指)|弄混|搞混|混淆|另一个
""",
    "generic": r"""
不对|不對|错了|錯了|不是我(要|想|问)|没(有)?回答|没听懂|没懂|答非所问|理解错|误会|誤會|重新(来|做|写|回答)|重来
    |再试|不行|不能用|没用|还是(不|错|没)|不正确|胡说|你忘(了|记)|漏了
我(已经|都)?说(过|了)|有(错误|bug)|为什么(你)?(要|没|不)|不要(这样|再)|怎么又|不满意|太差|跑题
我(刚才|之前|前面|一开始|最开始|开头)?(就)?(说|写|要|让|问)的(是|时候)|不是(说|让|叫|要)(你|过)|(还|仍)是(原来|旧|之前)
(好|谢谢|可以|收到|清楚|不错|行|对)[^。!?]{0,10}(但是?|不过|就是|只是|可是|只不过)|怎么(变成|还是|突然|成了)|没有?(按|照)
?其实|差一点
""",
}
