"""English cues: one pattern a line, in lower case and without apostrophes, as texts are levelled before the search.

A line that begins with `?` is a weak cue, one that is indented continues the line above. `<NAME>` is a list of
`cue_lists`.
"""

from hinting.cues_length import LENGTH

ENGLISH = {
    "length": LENGTH,
    "format": r"""
(wrong|bad|broken|different|incorrect|weird|ugly|messed[- ]up|terrible|not the (right|requested))
     (output )?(format|formatting|layout|structure|indentation|markup)
(format|formatting|layout|indentation) (is|was|looks|got) (still |all |completely |totally )*(off|wrong
    |broken|bad|ugly|messed|terrible|all over|not|lost|awful|horrible|weird)
(stop|quit|dont|do not|no more|avoid|drop|lose|without|remove|get rid of|enough with|skip|hate|not|less|ditch
    |cut) ((using|with|adding|the|all|so many|those|these|any|me|giving|send|sending|use|write|want|put|in|as|a
    |out) )*<FORMAT>
no (more )?(bullet\w*|markdown|asterisks|headings?|headers?|emojis?|tables?|json|bold|code blocks?|lists?)
(asked|wanted|expected|said|told you|requested|needed|need|was looking|want) ((for|you for|you to|use|give
    |write|send|return|it|them|this|that|in|as|to be|me|a|an|the|simple|proper|plain|valid|nice|clean|answer)
     )*<FORMAT>(?= *($|[.!?,;]|not|instead|and not|please|rather))
(should|must|has to|have to|needs to|supposed to) (be|have been|come|look|return) ((in|as|a|an|valid|proper
    |plain) )+<FORMAT>
(not|isnt|invalid|broken|malformed|isnt even) ((a|valid|proper|even) )*(json|yaml|csv|xml|html|table|markdown)
(json|yaml|csv|xml|table|markdown) (is|was|doesnt|does not|wont) (invalid|broken|malformed|parse|render|garbled)
(hard|impossible|difficult|tough) to (scan|parse|copy)|unreadable|(cant|couldnt) (copy|paste|parse) (it|this|that)
(put|give me|show|format|reformat|send|present|display|list|redo|rewrite|lay|write|return|turn) (it|this|that
    |them|those|these)( me| out| again)? (in|into|on|as|with|using) (a |an |separate |one |proper |plain
     |valid |simple |nice |its own )*(<FORMAT>|lines?)
(as|in|use) (a |an |plain |proper |valid |simple |numbered |actual )*<FORMAT>,? (please|pls|not|instead
    |next time|this time)
(one|each|an item) (item |entry )?(per|on its own) line,? (please|not|instead)|reformat (it|this|that)
?((as|in|with|into|use|using|make it) (a |an |plain |proper |valid |simple )*)<FORMAT>|format\w*|reformat
?plain text|bullet ?points?|bullets|markdown|one per line|indentation
""",
    "language": r"""
(wrong|different|other|another|incorrect) language|language (is|was) wrong
(dont|do not|cant|cannot|doesnt|does not|barely) (speak|understand|read|know) (any |a word of
     |much |this language|that language|<LANG>)
(not|isnt|wasnt|never) (in )?<LANG>(?= *($|[.!?,;]|please))
why (are|is|did|do|would) .*(in|speaking|switch\w*|using|writing|replying|answering|use|to|speak) (to )?<LANG>
(answer|reply|respond|speak|talk|write|say (it|that)|switch|stay|stick|repeat that|keep it|tell me|once more
    |continue)( back)?( to)?( me)? ?(in|to|with)? <LANG>,? ?(please|pls|only|from now on|again|not|next time
    |instead)?(?= *($|[.!?,;]))
(in|to) <LANG>,? (please|pls|not|only|this time|next time)|<LANG>,? (please|pls|only)(?= *($|[.!?]))
i (asked|wrote|am writing|was writing|speak|only speak|only understand|said)( (to you|this|it|you|only
    |that))* (in )?<LANG>
im (writing|speaking|asking)( \w+)? in <LANG>
(switched|changed|replied|answered|wrote|responded|speaking)( back| over)? (to|in|into) <LANG>
?in <LANG>|<LANG>
""",
    "tone": r"""
(too|so|very|really|a bit|kind of|kinda|rather|quite|overly|pretty|sounds?|sounding|was|were|being|be|less
    |unnecessarily|thats|awfully|feels?|youre|how|more|that) ((way|a bit|so|a little|very|really|rather|kind of
    |kinda|unnecessarily|less|too|quite|pretty) )*<TONE>
(rude|rudeness|condescending|patroni[sz]ing|unprofessional|disrespectful|insulting|snarky|sycophan\w+
    |mansplain\w+|preachy|flattery|impolite)
(watch|change|fix|mind|lower|adjust|soften|check|improve) (your|the) (tone|language|manners|attitude|wording)
tone (is|was|it down|that down|down|feels|sounds|should)
(wrong|bad|dont (like|appreciate)|hate|whats with|not|different|better|nicer) (that|this|your|the|a
    |of)? ?(tone|attitude|manners)
(dont|do not|stop|quit) (talk|speak|talking|speaking) (down )?to me|talking down|treat(ing)? me like
dont call me|calling me|im not (a child|five|an idiot|stupid|dumb|your (buddy|bro|mate|pal|friend))
(be|sound|write|more|a bit|a little|bit) (more |a bit |a little |less )*<NICE>(?= *($|[.!?,;]|please|pls
    |next time|with me|to me|to customers|and less))
(stop|quit|no need to|enough) (apologi[sz]ing|flattering|being (so )?\w+|saying sorry|lecturing|preaching
    |joking|with the (flattery|jokes|apologies)|the (flattery|jokes|apologies))
(drop|lose|cut|leave) (out )?the (attitude|sarcasm|jokes?|formality|flattery|cheer\w*|smileys|exclamation\w*
    |enthusiasm|apologies)
no need to be (so )?(rude|mean|harsh|sarcastic|formal)|manners
?<TONE>|<NICE>|tone|attitude|sarcas\w+
""",
    "missing_question": r"""
(should|could|ought to|might|would|shouldve|couldve)(nt you| you| not you| you not)?( at least| please
    | really| probably)? ?(have |of |ve )?(at least |first |really |maybe |also )*(asked|checked|confirmed
    |verified|double[- ]?checked|clarified|inquired|consulted|warned)
why (didnt|dont|did|do|wouldnt) (you|it) (not )?(just |even |first |at least |ever )*(ask|check|confirm
    |verify|clarify)
(without|before|instead of) ((even|first|actually|you|ever|any) )*(asking|checking with me|checking first
    |confirming|consulting|clarifying|verifying|(my|our) (permission|consent|confirmation|approval|ok|okay
    |go-?ahead|knowledge|say-?so)|confirmation)
(you|it) (never|didnt|did not|havent|forgot to|failed to|neglected to) ((even|bother to|first|actually|once
    |think to|ever) )*(ask|asked|confirm|confirmed|check with|checked with|verify|verified|clarify|clarified
    |consult|consulted|warn|warned)(?! for)
(ask|check with|confirm with|consult|verify with|clarify with|confirm it with|run it by) (me|us)\b.*(first
    |before|next time|beforehand|when|if|future|please|which|what|where|how|whether|always)
(please |always |just )?ask me( first)?(?= *($|[.!]))
(ask|confirm|check|verify)( with me)? (first|before(hand)?)
(ask|confirm|check)\b.{0,14}(before|instead of) (you|acting|doing|assuming|guessing|deleting|changing|booking
    |sending|proceeding|jumping|\w+ing)
(you|dont|do not|stop|you just|never|quit|why (do|did|are) you|shouldnt|youre|wrongly) ((just|even|simply
    |have|keep|always) )*(assum(e|ed|ing)|guess(ed|ing)?|presum(e|ed|ing)|jump(ed|ing)? to conclusions)
ma(d|k)(e|ing) (that|this|it|stuff|things|assumptions) ?(up)?(?= *($|[.!?,;]|about))
who (told|asked|said) you (to|could|that)|did i (say|tell you|ask you to|agree|confirm|approve)
i (didnt|never|havent|did not|have not|hadnt) (yet )?(say|said|agree|agreed|confirm|confirmed|approve
    |approved|authori[sz]ed?|okay|give you permission|given you|consent|consented)(?! (it|that) was (good|bad))
?(ask(ed)? me|confirm(ation)? first|assum(e|ed|ption|ing)|permission|clarify)
""",
    "wrong_entity": r"""
(wrong|incorrect|mistaken|not the right) (\w+ )?<THING>s?
(thats|that is|this is|its|those are|these are|that was) not (my|the|our|his|her|their|what) ?
    (right |correct )?<THING>s?
(that|this|it) (isnt|wasnt) (my|the|our|his|her|their) (right |correct )?<THING>s?
(not|isnt|wasnt) (that|this|the same|those|these) (one|ones|<THING>)
(no|not|i (meant|want|wanted|mean|need)),? (\w+ )?the other (one|<THING>)s?
(a|the) different (one|<THING>),? (please|than)
i (meant|mean|said|asked (about|for)|wanted|was (talking|asking) about|am (talking|asking) about|want|need
    |needed|was referring to|live in|work (at|for|in)) [^.?]{1,60}(,| and| -)? (not|instead of|rather than) \w+
^(no,? )?(its |the |i said )?[\w-]+( [\w-]+)?,? not (?!sure|yet|really|bad|now|so|too|that|only|just
    |what)[\w-]+( [\w-]+)?[.! ]*$
^not (?!only|just|sure|really|that|yet|so|to |too |working|even|quite|much|bad|very|in |at |for |what|right
    |now|all|good|as |because|any|using|with|on |helpful|at)[\w -]{1,25}[,;.-] ?(but |its |i (meant|said) )?[\w-]+
(mix(ed|ing)? (up|them up|those up|it up|that up|things up|.* with)|confus(ed|ing) (\w+ ){1,4}(with|for|and)
    |mistook|mistaking|misidentif\w+|swapped (the|my|them))
got (the|my|his|her|our) (\w+ )?(name|date|city|order|account|number|person|id|address|file|customer
    |email)s? wrong
(wrong (person|guy|one)|(thats|that is) not (me|him|her|us|my name))|my name is(nt| not)
actually,? i (wanted|meant|said|asked|need(ed)?|was (asking|talking))
?the other (one|\w+)|not that one|wrong \w+|different one|i (said|meant|wanted)
""",
    "generic": r"""
(thats|that is|this is|its|it is|youre|you are|you were|is|are|was|were|looks?|sounds?|got (it|that|this)
    |which is|seems|answers?|result) <SO><WRONG>(?! (with|at|about|for|idea|news|day|weather|by \d))
(not|isnt|wasnt|arent|never|hardly|not even|nowhere near|far from) ((really|quite|exactly|at all|even
    |actually|the|entirely) )*(what i|right|correct|true|accurate|acceptable|good enough|helpful|the point
    |how (it|this|that|i|we)|working|relevant|why i|where i|the question|(an|the|my) (answer|question)|what (we
    |was))(?! (now|away|hand|side))
(asked|wanted|meant|requested|said|told you|looking for|question)\b.{0,40}\b(not (that|this|what|how|for|to
    |why)|different|something else)
(it|that|this|you|your \w+|code|script|link|answer|they|one) (still )?<NOTDO> ((really|even|actually|properly
    |at all|still) )*(answer|address|help|work|make (any )?sense|solve|fix|follow|listen|do (what|it|that|as)
    |understand|get (it|me|what)|pay attention|compile|run|pass|include|match|apply)\w*
^still (doesnt|not|wrong|fail\w*|broken|the same|no|getting)\b.*
^(doesnt|didnt|does not|not) (work|working|help
    |helpful|good|right|correct|quite|it)\w*
you (ve |have |just |still |again |also |completely |totally |even |clearly |obviously
     |simply |only )*(missed|forgot(ten)?|ignored|skipped|left out|overlooked|misunderstood|misread|misinterpreted
    |omitted|messed|screwed|broke|botched|failed|dropped|hallucinat\w+|contradict\w+|repeated|lied|missing|got (it
    |that
    |this) (all )?wrong|changed the wrong|deleted)
(youre|you are|you keep|youve been|stop) (just |still |completely |totally |always )*(ignoring|missing
    |skipping|misunderstanding|repeating|contradicting|making things up|hallucinating|not (listening|answering
    |getting|reading|following|doing))
you (didnt|did not|havent|dont|do not|werent|arent|still havent) (do|use|include|included|listen|follow
    |answer|answered|read|check|finish|add|mention|give|handle|keep|change|update|test|see|notice|understand|fix
    |fixed|get|even|actually|really|tell|explain|need to|say|said|show|write|put|name|ask|thank|apologi[sz]e)
^(no+|nope|nah|wrong|incorrect)[ ,.!-]+(?!thank|thx|thats (all|it|fine|ok|good|everything)|that is all
    |that will|thatll|nothing|im (good|fine|done)|i am|further|other|not (now|yet)|go ahead|it (was|is) (great
    |fine|good))\w
^(no+|nope|wrong|incorrect|nah+|wtf|ugh+|argh+|seriously|huh|what|come on|oh no|bad (bot|answer)|false
    |fail)[ .!?]*$
ugh+|wtf|facepalm|for (gods|heavens) sake|for the (last|second|third|hundredth|nth) time
(theres|there is|might be|may be|have been|to be|seems|with) (a |an |some |a bit of |a little )?
    (confusion|mix-?up|misunderstanding)|i wanted (?!to (ask|know|say|thank))\w+
misunderst(ood|anding|and)
(made|theres|there is|contains?|that was|found) (a|an|another|several|some|two) (mistake|error|bug
    |typo)s?( in (your|that|it|the).*)?
your (mistake|error|bug)s?|you made a mistake|(that|this|it) can ?(no|)t be (right|true|correct)|makes no sense
nonsense|same (error|mistake|problem) (again|as before|still)|not helpful|(not |un)acceptable
over-?complicated|overengineer\w+
(i|we) (already|just|clearly|explicitly|specifically|literally|distinctly) (told|said|asked|mentioned
    |explained|gave|specified|wrote|answered)
(as|like) i (already |just )?(said|told you|mentioned|asked|wrote|explained)|i told you|how many times
i (said|never asked|did not ask|didnt ask|didnt want|didnt mean|never wanted|did not want|didnt say
    |never said|specifically|asked (for|you|about|how|what|why|whether|if))
(redo|undo|revert|fix|correct) (it|this|that|yourself)|do (it|this|that) (again|over|properly|right)
try (again|harder|once more)|start over|another (try|attempt)|put (it|that|this) back|take (it|that) back
once more,? but
(there is|theres|there was) no need|(you dont|you didnt) (need|have) to|we (dont|cant|do not) \w+
thats (exactly |precisely )?why i (asked|said|wrote|called|gave|want\w*)|(the|that|which|as|what) (\w+ ){0,3}i (had
    |have |already |just )*mentioned
please (dont|stop|do not|remove|undo)|^(do not|dont|stop) (?!worry|forget|bother|mind|hesitate)\w+
you should( have|nt| not|ve| never| always| at least) \w+|you should be \w+ing
^(next time|from now on),? (please )?\w+
(it|that|this|they|there) should(nt| not| have| be| say| only)\b|(was|were|is|are)(nt)? supposed to
thats not how|instead of
why (did|do|are|would|didnt|dont|have|cant) (you|u)|what (are|were) you (doing|thinking|talking)
are you (sure|kidding|serious|blind|even|listening|deaf)|you sure
i (wouldve|would have) (preferred|expected|liked)|id (rather|prefer)|i (was )?expect(ed|ing)|you were supposed
disappoint\w+|frustrat\w+|annoy(ed|ing)|waste of (my )?time|not impressed
(but|however|except|although|though)\b.{0,60}\b(wrong|not|dont|doesnt|didnt|isnt|missing|should|forgot
    |existing|still|too|keep in mind|instead|without|incorrect|mistake|problem|issue|error|fails?)
(great|good|nice|ok|okay|fine|thanks|thank you|perfect|close),? but
(really|was( all)? that( really)?|all that( really)?|is (all )?that( really)?|were those) necessary|unnecessary
    |uncalled for
(next time|from now on|in (the )?future),? (please |just |only |always |never |dont )*(answer|reply|respond|use
    |write|give|do|say|keep|try|include|be)\b.*
too (short|vague|general|generic|shallow|superficial|complicated|technical|abstract|confusing|advanced|basic)
not (detailed|specific|thorough) enough|not enough (detail|info|information|depth|context)
you only (gave|listed|answered|did|mentioned)|incomplete|missing (the|a|some|half|one|two)
what about the .* (i asked|part)|go back to|^(fix|correct|check) (it|this|that|your)
(is|was|that) (factually|plain|simply) \w+|off the mark|missed the (point|mark)|beside the point|try that again
not (even )?close|not it|thats not|that is not
?actually|hmm+|really|not quite|almost|incorrect|mistake|wrong|not sure about (that|this)|again
""",
}
