"""English cues of length, by far the most varied complaint, in the notation of `cues_english`."""

LENGTH = r"""
<VERY> (?<!take too )(?<!takes too )(?<!taking too )(?<!took too )(long|lengthy|wordy|verbose|chatty)(?! (as|ago))
<VERY> (talkative|much to read|much to take in|long-?winded|elaborate|drawn[- ]out|exhaustive|thorough)
(way )?(too|so) (many|much) <TEXT>
(a lot|lots|tons?|loads|mountain|sea|flood|heap|pile|whole lot) (of|to) (text|words|read|reading|digest
    |wade through)
(thats|that is|this is|its|quite|such) a (lot|mouthful)( to (read|take in|digest))?
(walls?|blobs?|blocks?|chunks?|bricks?) of (text|words)
(tl;? ?dr|tldnr|tmi|didnt read|aint reading( all)? that|not reading( all)? (that|this))
(verbose|verbosity|wordy|wordiness|long-?winded|rambl\w+|waffl(e|es|ed|ing)|babbl\w+|blabber\w*|yapp?ing
    |drivel|prattl\w+)
(blah[- ,]*blah.*|bloated|overlong|overkill|information overload|info ?dump|word (salad|vomit|count|limit|soup))
(stop(ped)?|gave up|quit) (reading|scrolling|listening|on (reading|that|it|this))( (after|at|half ?way|by)\b.*)?
(cant|couldnt|didnt|wont|will not|not (going to|gonna)|never|barely) (even )?(read|finish|get through
    |make it through|digest)\b.*(all|that|this|it|through|half|end|past)
(no ?one|nobody|who) (even )?(reads|has time|is going to read|will read|wants to read|needs|can read)\b.*(all
    |this|that|much|it|for)
(dont|do not|havent|have no|no|not enough) (have |got )?(the |any )?(time|patience|energy|bandwidth
    |attention) (for|to) .*(read|this|that|all|it)
(my )?eyes? .*(glaz|bleed|hurt|cross|tired|water)\w*|glazed over
(you )?lost me( (at|after|half ?way|there|somewhere|by|in|around)\b.*)?
los(t|ing) (the thread|track|interest|focus|patience|the plot)|(zon|tun|nodd|doz|switch)(ed|ing) (out|off)|zzz+
snooze|yawn
(fell|falling|almost fell) asleep|put(ting)? me to sleep|attention span
(my )?(head|brain) (hurts|is spinning|spins|melt\w+|explod\w+)
(had to|have to|keep|kept|still|so much|endless|forever|thumb hurts from) scroll(ing)?
scroll(ed|ing)? (and|down|forever|past|through)\b.*
(i )?(just )?skimmed|drown(ed|ing) in|overwhelm\w*
(doesnt|wont|didnt) fit (on|in) (my|the|one) (phone|screen|display|page|watch|tweet|text)
(fills?|filled|took up|covers) (my|the) (whole |entire )?(screen|page)|(phone|mobile|small|tiny|watch) screen
(thats|that is|that was|this is|this was|is this|was that|reads? like|feels? like|sounds? like|looks? like
    |like) (basically |practically |almost |quite |reading )*(a|an|the|half an?|some kind of) (whole
     |entire |full |long |freaking |damn |little |mini |small |bloody |proper )*<GENRE>(?! (is|are|was|in|by
    |about how))
(did(nt| not)|do(nt| not)|never|not) (i |really )*(ask|asked|want|wanted|need|needed|order|ordered|asking
    |here|looking)( you)? (for |to (write|read|have) )*(me )?(a|an|the|your|another) (whole |entire |full
     |long |freaking |damn |complete )*<GENRE>
(without|save me|spare me|enough of|instead of|thanks for|not|another|stop writing|no more|whoa|wow|woah
    |great|nice) ?,? (the |a |an |your |this |another |me |whole |entire |half |long |these |what a
     |quite a |little )*<GENRE>(?! (is|are|was|in|by|of|about))
(whole|entire|full-?blown|freaking|bloody|damn|complete|500[- ]word|mini|lengthy) <GENRE>(?= *($|[.!?,]
    |please|again|here|there|for me|when))
(you|u) (just |basically |practically )?(wrote|gave|sent|handed|typed|produced) (me )?(a|an|half an?)
     (whole |entire |full |long |freaking |damn |complete )*<GENRE>
(get|come|cut|skip|jump|stick|straight|right|go) (straight |right )?to (the|your) (point|chase|bottom line
    |answer|good (part|bit|stuff)|meat)
to the point,? (please|pls|next)
cut (out )?(the|all the|all that) (crap|fluff|chatter|waffle|small talk|chit[- ]?chat|filler|speech|noise
    |preamble|intro\w*|rest|chase|fat|bs)
(whats|what is|wheres|where is) the (bottom line|gist|answer|short version|tl;?dr|takeaway|actual answer)
(trim|cut|lose|chop|shed) (the|some|off the) (fat|excess|clutter|noise|extra|word count|length|paragraphs?)
(aint |is |are )?(nobody|no ?one)(s|is)? (actually |really )*(reading|going through|gonna read)\b.*
(brain|mind|head|eyes|attention) (\w+ )?(shut|switch\w*|check\w*|turn\w*|drift\w*|wander\w*|gave|died|fried|numb)\b.*
(give|tell|say) (it|that|this) (to me )?(straight|plainly|simply|quickly|briefly)|at a glance|enough with the \w+
(stop|quit|no more|dont|not|without|less|fewer|avoid) ((writing|sending|giving|me|with|so many|the|these|in|whole
    |long) )*
    (paragraphs?|walls|speeches|stories|backstor(y|ies))
not (so|that|as|this|too) (long|much|many|wordy|lengthy|detailed)(?= *($|[.!,]|please|pls|next|words|text|detail))
dont (write|send|give|tell|hand) (me )?(a|an|the|whole|your|any more) (whole |entire |full |long )*<GENRE>
(i )?(just|only|merely) (wanted|needed|want|need|asked|was asking|am asking|wondered)( you)? (to (know|tell me
    |hear)|which|what|where
    |if|whether|when|who|for the|how)\b.*
(please |so |and |ok |okay )*just (tell|give|show) me (which|what|where|if|whether|when|who|how|the|yes)\b.*
((two|three|four|five|ten|\d+|many|several) times|twice|way|far|much|so much|a lot) (too long|longer|more
    |as long)( than .*)?
((don|did|do)(t|nt|es not| not)|no) (really )?(need|want|care for|ask for) ((the|a|an|another|your|any|all|of|that
    |this) )*<GENRE>
(long|big|huge|endless) (answer|reply|response|text|story)s? (for|to) (a|such|this|my) (short|simple|small|quick)\b.*
(went|going|go|gone|off) (off )?on (a|some|another) (tangent|rant|tirade|detour)|too detailed|gave up (after|on|at
    |half)\b.*
(this|that|it) (could|should|couldve|shouldve) (be|have been|been) (a|an|one) (tweet|text|line|word|sentence|emoji
    |one-?liner)
((won|can|could|did|do)(t|nt|not)|not (going to|gonna)|never|wouldnt) (even )?read .*(paragraphs?|lines|pages?
    |words|sentences|screens?).*
(do|can|could|will|would) you (ever |please |just )*stop (talking|writing|typing|explaining)|a bit much
    |get to it( already)?
(you )?(could|can|should|might) (have )?(cut|drop|skip|lose|omit|leave out) (most|some|half|all|much|a lot
    |the rest) ?.*|swallow(ed)? a \w+
(drop|skip|omit|lose|ditch|leave out|without|cut) (all |of )?(the|that|those|any) (extra|additional|unneeded
    |needless|side|unnecessary)\b.*
i (dont|didnt|do not|did not) (really )?(need|want|care|have) to know\b.*
enough (detail|text|words|info\w*)( for .*)?|(by|per) the word|per word|over-?explain\w*|bored (half\w*|after|by
    |reading|to|me)\b.*
(fits?|fit) (on|in) (a|an|one|my) (sticky note|post-?it|postcard|napkin|stamp|tweet|text|line|screen|index card)
(had|have) to (read|reread|search|dig|hunt|look) .*(twice|again|to find|for the answer|through)|just the (fix|steps
    |result|code|button|command)
(keep|limit|hold|stay|cap) .*(under|below|to|within|at) (about |max )?<FEW> ?<BIT>
(get on with it|beat(ing)? around the bush|(whats|what is) (the|your) point(?! (of|in))|make your point
    |where is the (actual )?answer|bur(y|ied|ying) (the|in))
(fluff|fluffy|filler|padding|padded|preamble|blather|verbiage|extraneous|superfluous|redundant|repetitive
    |fluffed up)
(spare|save) me .*(details?|rest|lecture|story|speech|backstory|background|history|time|reading)
skip the (intro\w*|details|background|history|lecture|rest|explanation|backstory|fluff)
(boil|whittle|pare|slim|narrow|trim|cut|shrink|strip|dial|distil+|squeeze|tone|scale|water
    |break)(ed)? (<THAT> )?(way |right |it )?(down|back)( <THAT>)?(?! into)
(shorten|condense|compress|abridge|truncate|abbreviate|tighten|trim|prune|squeeze|distil+|halve|shrink
    |compact) (up )?<THAT>( up| down| a bit| please)?
(summari[sz]e|simplify|sum( up)?|wrap( up)?|cut|reduce|edit) <THAT>( up| down| short| in half
    | by half)?(?! (article|paper|document|file|email|thread|book|page|report))
(be|being|keep(ing)? <THAT>|keep (your|the) \w+|make <THAT>|make (your|the) \w+|get it|try|aim for|i (like
    |want|need|prefer) (it|my answers|answers|your answers|things|them)|give it to me|say it|put it)
     (much |a lot |a bit |a little |way |far |more |something |nice and |very |really |super |less |even |to be
     |and |nice |short )*<SHORT>(?! (function|script|story|poem|essay))
(be|being|keep <THAT>|make <THAT>) (a lot |a bit |much |a little |way |far )*less (wordy|verbose|long
    |detailed|chatty|talkative|elaborate|rambling)
(less is more|brevity|fewer (words|sentences|lines|details|paragraphs)|less (text|words|detail|verbose|wordy
    |talk|chatter|rambling|reading|info|blah|chat))
half (the|of (that|this|it)|as (long|much)|that|this) ?(length|size|text|words|long|much|would|is|was|please)?
a (third|quarter|tenth|fraction) of (that|this|it|the (length|size))
(just|only|merely|simply|i (just |only )?need(ed)?|i (just |only )?want(ed)?|all i (need|want|ask
    |asked)(ed)?( for)?( is| was)?|give me|gimme|stick to|how about|id like|can i (get|have)) (just |only )?
    (the |a |one )?(bare |quick |short |simple |plain |straight |one |actual |very |main |key )*(gist|essence
    |bottom line|headlines?|highlights?|essentials?|basics|bones|tl;?dr|takeaways?|core|crux|upshot|punchline
    |short version|cliff ?notes|one-?liner|abstract|facts?|meat|key (points?|facts?|info)|main (points?|ideas?)
    |point|nutshell|conclusion|verdict|result)(?! (about|of (the|this) (book|movie|article)))
(just|only|simply) (the|an|a|one|your|give me (the|an)|tell me the) (short |simple |quick |straight
     |direct |plain |actual |single |clear |final |brief )*(answer|number|name|sentence|line|word|summary)( (please
    |pls
    |next time|thanks|is fine|would do|will do))?(?= *($|[.!,?]))
(short|quick|straight|simple|direct|one[- ]line|one[- ]sentence|one[- ]word|brief|concise|condensed|abridged
    |digest|lite|mini|shorter|tight) (answers?|repl(y|ies)|responses?|version|summary|form),? ?(please|pls|only
    |would|will|next time|from now on|is (enough|fine|all)|was all|thanks)
(gist|bottom line|short version|condensed version|cliff ?notes|elevator pitch|one-?liner|executive summary
    |nutshell|headline|highlights),? (please|pls|only|will do|would do|would have|is (enough|fine))
<FEW> (short |simple |little |quick |brief |plain |good |single |or two )*<BIT>( or (two|less|so))?( (answer
    |reply))? (would|will|is|was|are|were|suffic\w+|do|wouldve|should|ought|max|maximum|tops|only|at most|next time)
(a )?(yes or no|yes/no|simple (yes|no|yes or no)|quick (yes|no))( answer)?( would\b.*| will do.*| is (enough
    |fine|all).*| was all.*| suffic\w+| please.*)
(only|just) (needed|wanted|asked for|expected|need|want|was looking for|looking for) (a |one |two |the
     |1 |2 )?(quick|short|brief|simple|single|line|sentence|word|few|two|yes|number|answer)
(in|with|using|to|under|within|at most|no more than|max|maximum( of)?|not more than|up to|limit (it|yourself
    |that|this|your \w+) to|below) (just |only |about |like |max |under )*<FEW> ?(short |simple )?<BIT>( or (two
    |less|so))?,? ?(please|pls|next time|max|this time|instead|only|tops|from now on|at most|ok|okay|thanks
    |if you can|or less|no more)
<FEW> (short |simple )?<BIT>( or (two|less|so))?,? (please|pls|max|maximum|tops|at most|only|next time
    |no more|from now on)
(do|did|does|must|should|why (do|did|are|is|does|would)|cant|could|couldnt|need|have) (you|it|i|your answers
    |this|we|every(thing| answer)) (really |always |have to |need to |be |take |use |write |say |read
     |go on |make |giving me |give me |never |it |to )*(so|that|this|such) (much|many|long|lengthy|wordy|verbose)
(goes?|go|went|going|carr(y|ies)|drag(s|ged)?|rattl\w+|dron\w+) on( and on| forever| too long| for (ages|ever
    |miles|pages))
never[- ]ending|endless(ly)?( text| list)?|(took|takes|taking) (forever|ages|me .*) to read
(minutes?|hours?) (of|to) read(ing)?
(length|long) (is|was) (a problem|insane|ridiculous|absurd|excessive|crazy|too much)|excessive(ly)?|exhausting
tedious|tiresome|mind-?numbing|(mile|page)s? long|a mile long
more (words |text |detail |info\w* )?than i (asked|needed|wanted|need|bargained|can|could)\b.*
(didnt|dont|did not|do not) (really )?(need|want|ask for) (all|that much|so much|every|the (whole|full|entire
    |history|background|details|backstory|lecture|life story)).*
(all (that|this|those|these)|that much|this much|so much) (text|words|detail|info|information|explanation
    |reading|writing|typing|stuff|just|for (a|one|such|that))
(quick|short|small|simple|tiny) question\b.*(answer|reply|essay|novel|page|paragraph|word|long|book)\w*
simple question,? simple answer
(too|way too|that(s| is) (way |far |just )*too) much( (text|detail|info\w*|for me|to read|at once|here|stuff
    |words))?(?= *($|[.!?,;]| for| here| text| detail| info))
(on|from) (my|a|the) (phone|mobile|cell|watch|go|train|bus)\b.*(short|brief|read|long|hard|quick)\w*
(im )?in a (hurry|rush)|time is money|(im|i am) (so |very |too )?busy|aint nobody got time.*
(ive|i) (only )?(got|have) (only )?(a|\d+|one|two|ten|thirty|five) (minute|second|sec)s?
(shorter|briefer|snappier|punchier|terser|crisper|tighter|more (concise|brief|succinct|compact|condensed
    |to the point)|less (long|lengthy|verbose|wordy|detailed)),? ?(please|pls|plz|next time|this time|from now on
    |version|answers?|repl\w+|respons\w+|again|would|will)
(talk|write|say|use|type|explain|ramble|go on) (so much |a lot |way |much )?(less|too much|so much|too long
    |in short)
(brief|short|simple|light|quick) (and|n|but|&) (sweet|simple|to the point|clear|brief)( please)?|keep it simple
kiss
?<SHORT>|shorten|condense\w*|summar(y|i[sz]e)|trim|simplif\w+|bite-?sized?|tweet|shorthand|nutshell|gist|essence
?essentials|crux|upshot|bottom line|long story short
?<FEW>[- ](short |simple )?<BIT>|(key|main) (points?|facts?|ideas?)|headlines?|highlights?
?(read(ing)?|paragraphs?|sentences?|lines?|words?|text|detail(s|ed)?|longer|length|longest|tangents?|homework|half
    |chop|dense)
?(faster|quicker|leave (it |that |this )?out|left in|limit (it|yourself|that|this)|screens?|scroll\w*|pages?|tl|dr
    |chapters?)
?<GENRE>|(long|lengthy|huge|massive|enormous|gigantic|epic|giant)|too much|a lot|all (that|this)|details?
?(wow|whoa|woah|phew|oof|sheesh|yikes|omg|jeez|dude)
"""
