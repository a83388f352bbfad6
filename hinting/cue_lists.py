"""Word lists that English cues name as `<NAME>`; each stands for any one of its words."""

LISTS = {
    "VERY": "too|so|overly|needlessly|unnecessarily|ridiculously|insanely|painfully|awfully|terribly|a bit|rather",
    "TEXT": "text|words?|reading|info|information|details?|paragraphs?|sentences|lines|pages?|explanation|prose|stuff",
    "REPLY": "answers?|repl(?:y|ies)|responses?|messages?|explanations?|version|summary|output|texts?|one|stuff",
    "THAT": "it|that|this|things|them|everything|(?:that|this|your|the) (?:last |whole |previous )?<REPLY>",
    "GENRE": """essays?|novels?|novella|books|(?<=a )book|(?<=whole )book|lectures?|sermons?|thesis
        |dissertations?|articles?|encyclop[ae]+dias?
        |manifestos?|speech|monologues?|epic|saga|chapters?|memoirs?|blog post|term paper|ted talk|war and peace|scroll
        |biography|wiki(?:pedia)?(?: page| article| entry)?|history lesson|treatise|documentary|life story|bible
        |textbook|white ?paper|short story|press release|deep dive|tutorial|crash course|phd|full report|epistle""",
    "SHORT": """short(?:er)?|brief(?:er)?|concise|succinct|terser?|compact|snapp(?:y|ier)|crisp(?:er)?|tight(?:er)?
        |pithy|punch(?:y|ier)|minimal|quick(?:er)?|simpler?|lean(?:er)?|to the point|concisely|briefly""",
    "BIT": "sentences?|lines?|words?|liner|phrase|paragraph|characters?|chars|tweet|breath|syllables?",
    "FEW": "one|a|a single|single|1|two|2|three|3|a few|few|a couple of|couple of|five|ten|twenty|fifty|\\d+|half a",
    "LANG": """english|german|french|spanish|italian|portuguese|chinese|mandarin|japanese|korean|russian|dutch|polish
        |turkish|arabic|hindi|swedish|greek|czech|my language""",
    "FORMAT": """bullets?|bullet ?points?|bulleted list|bullet list|numbered list|lists?|tables?|json|yaml|csv|xml
    |html
        |markdown|latex|prose|plain text|code blocks?|headings?|headers?|bold(?: text)?|asterisks?|stars|emojis?
        |columns?""",
    "THING": """order|customer|user|account|file|folder|function|branch|repo|city|country|person|name|date|day|year
        |month|time|address|email|number|flight|hotel|room|product|item|model|ticket|invoice|id|place|company|movie|song|team
        |project|column|database|page|guy|package|booking|reservation|topic|thing""",
    "TONE": """rude|formal|informal|casual|condescending|patroni[sz]ing|cold|snarky|sarcastic|unprofessional
    |unfriendly
        |stiff|robotic|preachy|pushy|harsh|aggressive|dismissive|disrespectful|salesy|cheesy|arrogant|insulting|curt
        |blunt|cheerful|enthusiastic|sycophantic|flippant|childish|dramatic|smug|impolite|bossy|judgmental|corporate""",
    "NICE": """polite|politely|friendly|friendlier|nicer|kinder|warmer|professional|professionally|respectful|formal
        |casual|human|natural|empathetic|gentler|serious|neutral|courteous|civil""",
    "WRONG": """wrong|incorrect|inaccurate|false|untrue|nonsense|garbage|rubbish|useless|broken|unacceptable|unhelpful
        |mistaken|bogus|terrible|awful|bad|stupid|ridiculous|crap|bullshit|outdated|backwards|gibberish|made up
        |over-?complicated|over-?engineered|irrelevant|off[- ]topic|misleading|unusable|a lie|off""",
    "SO": "(?:(?:just|still|all|totally|completely|simply|plain|clearly|obviously|way|quite|partly|utterly|so|both) )*",
    "NOTDO": "doesnt|didnt|does not|did not|dont|havent|have not|isnt|arent|wasnt|werent|cant|wont|never",
}
