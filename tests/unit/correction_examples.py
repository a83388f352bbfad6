"""Messages written for these tests: what a person might say after an answer, and the family of the complaint, if any.

The request before them was `REQUEST` and the answer `ANSWER`, unless an example brings its own.
"""

from typing import NamedTuple

REQUEST = "How do I reset my router?"
ANSWER = "Routers come in many kinds, and each has a history. Hold the small button on the back for ten seconds."


class Example(NamedTuple):
    text: str
    family: str | None
    request: str = REQUEST
    answer: str = ANSWER


_BLOCKS = {
    "length": """
        That's way too long.
        tl;dr
        TL;DR please
        Whoa, that's an essay
        I stopped reading after the first line
        can you boil that down
        my eyes glazed over
        just the gist please
        Too wordy.
        Shorter please
        shorter
        In one sentence, please.
        One sentence would have been plenty.
        I didn't ask for a novel.
        Did I ask for a lecture?
        Get to the point.
        Please cut to the chase
        wall of text...
        That's a lot of text
        Nobody is going to read all that.
        I don't have time to read all of this
        Could you keep it brief?
        Keep your answers short from now on.
        You lost me halfway through
        brevity please!
        I only needed a quick answer
        A simple yes or no would do.
        why are your answers so long?
        Must you always write so much?
        could you condense this
        Trim it down a bit
        Half of that would be enough
        Can you summarize that for me in a line or two?
        Too much information
        Less is more, you know
        I'm on my phone, keep it short please
        Spare me the details
        just the answer, no backstory
        Stop rambling
        You do go on and on...
        thats a mouthful
        Way too verbose, tighten it up
        Thanks for the essay...
        Great, another novel
        Can I get the short version?
        I fell asleep reading that
        So many words for such a simple question
        I'm drowning in text here
        What's the bottom line?
        Cut the fluff
        Please be concise
        Can you be more succinct?
        a sentence or two max please
        Skip the intro and just tell me
        No need for a whole history lesson
        OK but make it shorter
        I had to scroll forever to find the answer
        My attention span can't handle this
        Not reading all that
        dude, that's a book
        Could you give me that in fewer words?
        Your reply is excessively long
        It took me five minutes to read that.
        I just want the short answer
        Simplify this please
        who has time to read all this
        Next time use at most two sentences.
        In a nutshell?
        Good grief, that's a lot to take in.
        Bit long-winded, no?
        can u just tell me the answer
        Ok that was way more than I needed
        Could you trim the fat?
        I zoned out after the second paragraph
        Please, no more walls of text
        Jeez, who asked for the whole encyclopedia
        Short answers only, please.
        You're giving me way too much
        That could've been one sentence
        Can you say that in ten words?
        Answer in a single sentence
        Make your replies snappier
        I don't need the whole backstory
        Way more detail than necessary
        Quick version?
        ain't nobody reading that
        Could we keep this to one line?
        please stop writing paragraphs
        I'd prefer something I can read at a glance
        This is exhausting to read
        Too many words!
        You talk too much
        one-liner next time please
        My brain shut off halfway
        Sum it up
        Give it to me straight
        I just need the essentials
        Hmm, that's quite a lot. Shorter?
        You could have said that in five words
        Too much text, can't process
        That's more words than my master's thesis
        get to the good bit
        Don't write me a book
        Condense, please
        that was a long way of saying hold the button
        I asked a simple question and got a lecture
        Please be brief.
        short pls
        Could do with being about a quarter of the size
        You buried the answer
        Can I have that without the waffle?
        I nodded off
        Pare that back please
        let's keep it to the point
        Sheesh, that's a long one
        I need it bite-sized
        It's too long to read on my watch
        Not so long please
        My goodness, so much text
        Okay Shakespeare, the short version please
        enough with the speeches
        I skimmed it, too long
        Mach's kürzer
        Geht das auch knapper?
        Fais plus simple, c'est long
        Es muy largo, resume
        能不能短一点
        字太多了
        Ugh, so much to read
        Hey, can we go shorter here?
        That was exhausting
        I only read the last line
        what's with the long answers
        You don't have to explain everything
        Please get to it faster
        That's five times longer than it needs to be
        Could you chop that in half?
        I just wanted to know which button
        Short. Please.
        Nope, too much blabla
        You can leave out the history
        Please limit yourself to one sentence
        Was that supposed to be a reply or a book?
        Tighten that up please
        I gave up after two sentences
        Come on, one line!
        Word vomit much?
        Can I have the cliff notes?
        Fewer sentences please
        Make it a one-liner
        Let me stop you there, shorter please
        Reading this feels like homework
        Way too many details for me
        Please respond in 20 words or less
        This could be a tweet
        Holy moly, that's long
        No essays please
        I'm not going to read three paragraphs about routers
        A bit less text, please
        Keep it under two sentences
        You went off on a tangent
        Just tell me which button to press!
        Don't need the lecture, thanks
        Oof, that's dense
        And the short answer is?
        long answer for a short question
        Please don't ramble
        It's too detailed for what I need
        Can you be more to the point?
        That's enough detail for ten people
        You write like you're paid per word
        Please don't write so much
        That reply was massive
        I got bored halfway
        Could you compress it?
        I need this in one short paragraph
        Let's try again, but shorter
        I had to read it twice to find the answer
        That could fit on a sticky note
        Wow, so long
        I'm not reading a whole page for that
        Use fewer words
        Two lines tops.
        So what's the answer in one word?
        Okay that was a lot
        Please, a short answer
        Keep responses under 100 characters
        too long didn't read
        Wayyy too long
        Not interested in the history, just the fix
        Minimal answers please
        Trim it.
        Way too chatty
        I can't find the answer in all this
        Please get straight to the answer
        Talk less
        Are you getting paid by the word?
        You overexplain everything
        bro that's a whole paragraph
        Explain it shorter
        I lost patience reading this
        No need to go into that much detail
        This goes on and on
        Can I get a condensed one?
        way longer than i expected
        Why the lecture?
        I just need one thing, not ten paragraphs
        Do you ever stop talking?
        Please don't send me so much text
        Ehm, shorter?
        Answer me in one line.
        My eyes hurt
        You could cut most of this
        I don't need to know who invented it
        Only the essentials please
        Summary?
        That's a thesis, not an answer
        Could you please be less wordy
        Boring. Too long.
        get to it already
        Not gonna read that
        It's a bit much
        Please keep your responses to a single sentence
        No more than one sentence, please
        Did you swallow a dictionary?
        You used a lot of words to say very little
        A short reply is fine
        Nah, too much reading
        Brief is better
        Drop the extra detail
        One sentence is all I need
        I'm overwhelmed by this answer
        Das ist viel zu lang.
        Kürzer bitte
        Fass dich kurz!
        Ein Satz hätte gereicht.
        Wer soll das alles lesen?
        Ich wollte keinen Roman.
        C'est beaucoup trop long
        Plus court s'il te plaît
        Va droit au but
        Une phrase suffisait
        Demasiado largo
        Más corto, por favor
        Ve al grano
        Mucho texto
        太长了
        太啰嗦了, 说重点
        简短一点
        一句话回答就行
    """,
    "format": """
        I asked for a list, not paragraphs
        Please use bullet points
        As a table please
        no markdown please
        The formatting is all over the place
        That's not valid JSON
        Stop using emojis
        Wrong format
        Can you put that in a table?
        without the bullet points please
        I can't copy that, use a code block please
        One per line, please.
        Als Liste bitte
        Bitte keine Aufzählungen
        Mauvais format
        Formato incorrecto
        格式不对
        不要用表格
    """,
    "language": """
        In German please
        Why are you answering in Spanish?
        I don't speak French
        English please!
        wrong language
        I wrote to you in English, answer in English.
        Please reply in Italian
        You switched to Chinese
        Auf Deutsch bitte
        Ich verstehe kein Englisch
        En français s'il vous plaît
        Je ne parle pas anglais
        En español, por favor
        ¿Por qué me respondes en inglés?
        请用中文回答
        看不懂英文
    """,
    "tone": """
        That was rude.
        No need to be so condescending
        Could you be a bit more polite?
        Too formal for my taste
        Don't talk to me like I'm five
        watch your tone
        Stop apologizing
        you sound like a robot, too stiff
        A little less sarcastic please
        Das war unhöflich
        Bitte etwas freundlicher
        C'est trop familier
        Muy grosero
        语气太生硬了
        太没礼貌了
    """,
    "missing_question": """
        You should have asked me first
        Why didn't you ask which model I have?
        You just assumed I have a Fritzbox
        Don't assume, ask.
        You did that without my permission
        I never confirmed that
        Please confirm with me before changing anything
        you never asked which one
        Who told you to delete it?
        Next time check with me before you book
        Du hättest vorher fragen sollen
        Ohne zu fragen?!
        Vous auriez dû me demander
        Deberías haber preguntado
        你应该先问我
        别自作主张
    """,
    "wrong_entity": """
        That's not my order
        Wrong customer!
        I said Berlin, not Bern
        I meant the upstairs router, not the office one
        No, the other one
        Actually, I wanted HAT052
        You mixed up the two accounts
        You confused Austria with Australia
        That's the wrong file
        Not that one
        Falsche Bestellung
        Nicht Köln, sondern Bonn
        Pas celui-là
        Cuenta equivocada
        你搞错人了
        我说的是上海
    """,
    "generic": """
        That's wrong.
        No, that's not right
        Not what I asked
        That doesn't answer my question
        It doesn't work
        Still broken
        You missed the null case
        You forgot the second half
        I think there might be a misunderstanding
        it's good, but you left out the tests
        There is no need to track the existing session
        we don't control that process
        This is overcomplicated
        TODO is not acceptable, implementation must be full
        Try again
        I already told you that
        That makes no sense
        great, but there is existing logic for this
        don't produce code, design the solution first
        You ignored my second question
        nope
        That can't be right
        Was all that really necessary?
        Das stimmt nicht
        Das ist falsch
        C'est faux
        Ce n'est pas ce que j'ai demandé
        Eso no es correcto
        Te equivocas
        不对
        答非所问
    """,
}

_HARMLESS = """
    Thanks!
    Thank you so much, that worked
    Perfect, thanks
    Great, nice and short!
    Thanks, short and to the point
    Nice and concise, love it
    Exactly what I needed, thanks
    No, that's all
    No, that's all, thank you
    No thanks
    no rush
    No worries, take your time
    Actually, let's also add a guest network
    Revert the last commit
    Now do the same for the printer
    What about the printer?
    And how do I change the password?
    List five fruits, one per line.
    List five European capitals, one per line
    Write a short poem about autumn
    Write an essay about the French Revolution
    Can you recommend a good novel?
    Explain quantum tunnelling in one sentence
    How long does a flight to Tokyo take?
    What is the German word for butterfly?
    Translate "good morning" into French
    Summarize this article: The council met on Monday to discuss parking.
    What's wrong with my code?
    How do I fix a broken pipe?
    Which format does the printer accept?
    Make a table of the planets and their moons
    Give me three ideas for dinner
    Why is the sky blue?
    Tell me about the history of the Roman empire
    Sorry, I meant the printer
    Oops, my mistake, I typed the wrong thing
    My bad, I should have said the office router
    yes please
    ok
    Sounds good
    That works, thank you
    Good answer!
    Can you tell me more about step two?
    Could you elaborate on the button?
    What does WPS mean?
    I have another question
    Next question: what is DNS?
    It has a long list of error codes, what do they mean?
    My boss says my emails are too long, how do I tell him I disagree?
    Is it wrong to eat dessert first?
    Don't worry about it
    Not bad at all
    That's not a problem
    Hello
    Who wrote the longest novel ever?
    Compare JSON and YAML for config files
    What time is it in Spain?
    Book a table for two at seven
    Please order the blue one as well
    How do I ask my landlord for permission to keep a dog?
    How tall is Mount Everest?
    Could you also tell me how to change the wifi name?
    Next: how do I boil an egg?
    What are the three longest rivers?
    Ok great, and what about Linux?
    Nice, I like how short that was
    That's clear, thanks a lot
    What's the shortest day of the year?
    Give me a list of vegetables
    List some books about Rome
    I read a novel yesterday, what should I read next?
    How do I write a good essay?
    What's a good length for a résumé?
    Name four programming languages
    Why does my dog bark so much?
    Do cats sleep a lot?
    Short and sweet, cheers!
    Lovely, exactly the length I wanted
    How do magnets work?
    Can you explain what a hash map is?
    What should I cook tonight?
    Who invented the telephone?
    Is Pluto a planet?
    How many lines does the London Underground have?
    What is the point of meditation?
    Tell me a fact about bees
    When is it too late to plant tomatoes?
    Help me plan a long weekend in Rome
    How do vaccines work?
    What is the best way to learn Spanish?
    Alright, different topic: what causes rain?
    One more thing: what is an IP address?
    List three types of clouds, one per line
    Got it. What does a modem do?
    What's the difference between a virus and a worm?
    What's the tallest building in Dubai?
    How do I tie a tie?
    List three dog breeds
    Can you give me an example?
    What causes thunder?
    And for a Netgear one?
    Thanks, what is a firewall?
    Brilliant, thank you
    Great stuff
    Cool, and how often should I do it?
    What's the longest word in English?
    Who painted the Mona Lisa?
    Which fruits have the most sugar?
    Why do leaves turn red?
    Do I need to unplug it first?
    How many bits are in a byte?
    Fine. What is a VPN?
    Name two books by Orwell
    How does a fridge work?
    Okay, what about a printer?
    List six colours, one per line.
    Very helpful, cheers
    That did the trick!
    Ah I see. What is bandwidth?
    Is it safe to eat raw eggs?
    Tell me something about Iceland
    Could you name a few famous essays?
    What do bees eat?
    Can you list the steps?
    When was the telephone invented?
    Danke, das hat geholfen
    Nein, das war alles
    Wie ändere ich das Passwort?
    Schreib mir ein kurzes Gedicht über den Herbst
    Merci beaucoup !
    Non merci, c'est tout
    Comment changer le mot de passe ?
    Gracias, perfecto
    No, eso es todo, gracias
    ¿Cómo cambio la contraseña?
    谢谢, 很好
    没有了, 谢谢
    怎么修改密码?
    写一首关于秋天的短诗
    great, prepare the implementation plan
    I'd like to book a flight to Berlin
    Name three rivers in Africa.
    What is the capital of Norway?
    How many words are in the English language?
    Draft a polite email to my neighbour about the noise
"""

_IN_CONTEXT = (
    Example("No", None, "Cancel my flight", "I cannot do that here. Would you like me to transfer you?"),
    Example("No, the morning one is better", None, "Find a flight", "Here are two. Shall I book the evening one?"),
    Example("a", None, "Refactor it", "a) move it, b) delete it. Which do you want?"),
    Example("Explain TCP in one sentence", "length", "What is TCP?", "TCP is a protocol. It was made in 1974 for ..."),
    Example("Explain UDP in one sentence", None, "What is TCP?", "It carries bytes in order."),
    Example("as a table of fruits please", "format", "Give me fruits", "Apples, pears and plums are fruits."),
    Example("Tell me about Norway in German", None, "Tell me about Sweden", "Sweden is a country in the north."),
)


def _lines(block: str) -> list[str]:
    return [line.strip() for line in block.strip().split("\n")]


POSITIVE = [Example(text, family) for family, block in _BLOCKS.items() for text in _lines(block)]
NEGATIVE = [Example(text, None) for text in _lines(_HARMLESS)]
EXAMPLES = [*POSITIVE, *NEGATIVE, *_IN_CONTEXT]
