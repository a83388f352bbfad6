"""What people ask in the demo: topics, lists, other work through the same model, and unrelated prompts."""

import random
from collections.abc import Sequence

SYSTEM = "You are a helpful assistant for customers of Northwind, an online shop."
HELD_OUT = 40
MOST = 100
"""Of each kind, asked in traffic."""
SMALL_TALK = "Are you there?"


def lines(text: str) -> tuple[str, ...]:
    """Return the lines of a block of text that are not empty."""
    return tuple(line for line in text.splitlines() if line)


def split_topics(seed: int) -> tuple[list[str], list[str]]:
    """Return the topics that traffic is about and the held-out ones, which nobody asks before they are measured."""
    return _split(TOPICS, seed)


def split_lists(seed: int) -> tuple[list[str], list[str]]:
    """Return the lists asked for in traffic and the held-out ones."""
    return _split(LISTS, seed)


def _split(items: Sequence[str], seed: int) -> tuple[list[str], list[str]]:
    shuffled = list(items)
    random.Random(seed).shuffle(shuffled)  # noqa: S311 - a simulation
    return shuffled[HELD_OUT:][:MOST], shuffled[:HELD_OUT]


TOPICS = lines("""
How do I reset my password?
My parcel has not arrived yet, what should I do?
Can I return shoes that I have already worn once?
How long does standard delivery take?
I was charged twice for the same order. What now?
Do you ship to Canada?
How can I change the delivery address after ordering?
The lamp I bought does not switch on. What can I try?
Where do I find my invoice?
How do I cancel an order I placed this morning?
What is the warranty on garden tools?
My discount code is rejected at checkout. Why?
Can I pay in instalments?
How do I delete my account?
I got the wrong colour. How do I swap it?
Is there a way to track my order?
How do I unsubscribe from the newsletter?
What do I do if an item arrives broken?
Can I combine two orders into one shipment?
When will the blue armchair be back in stock?
How do I assemble the bookshelf without the manual?
Can someone else pick up my parcel?
Which payment methods do you accept?
Why was my card declined?
How do I clean a wool rug?
Can I get a gift receipt?
How do I add a second user to my business account?
What happens if I miss the delivery?
How do I leave a review for a product?
Do you offer a student discount?
I forgot which e-mail address I signed up with. Can you help?
How do I use a gift card?
Is the outdoor bench safe to leave in the rain?
How do I get a refund for a late delivery?
Can I order spare parts for my lawn mower?
How do I turn off order notifications on my phone?
The app crashes when I open the cart. Any ideas?
How do I change the language of the site?
What size of curtain should I order for a two metre window?
Do I have to pay customs duties?
How do I join the loyalty programme?
My loyalty points have vanished. Where did they go?
Can I schedule a delivery for Saturday?
How do I report a fake product?
Can I see the sofa in a real shop before buying?
How do I recycle my old mattress with you?
Is this paint safe for a nursery?
How do I set up two-factor login?
I never got a confirmation e-mail. Did my order go through?
How do I edit my shipping preferences?
Do you price match other shops?
How do I store cushions over the winter?
Can I return a gift without the receipt?
How do I connect the smart bulb to wifi?
What does the extended protection plan cover?
How do I dispute a charge from last month?
The table leg wobbles. How can I fix it?
How do I save items for later?
Can you hold my order until next week?
How much does express shipping cost?
How do I update my credit card details?
Do you deliver to a parcel locker?
Why does my order say pending?
How do I get rid of the smell of a new mattress?
Can I order by telephone?
How do I change the name on my account?
Is assembly included with the wardrobe?
How often should I oil a teak table?
How do I apply for a business account?
Can I get free samples of fabric?
How do I stop a subscription for plant food?
My plant arrived with yellow leaves. Is it dying?
How do I download all my past invoices?
Are your candles vegan?
Why is the price different in the app?
How do I invite a friend and get the bonus?
What is your policy on damaged packaging?
How do I reach a human agent?
Do you install washing machines?
How do I find out whether a chair fits my desk?
Can I pay with two different cards?
How do I keep slugs away from the raised bed I bought?
The courier left my box with a neighbour I do not know. Help?
How do I print a return label without a printer?
Can I change the quantity in an order that is being packed?
What materials are your towels made of?
How do I remove a saved address?
I want to send back only half of a set. Is that possible?
How do I sharpen the kitchen knives from your shop?
Do you have a wedding registry?
How do I sync my wish list between devices?
Is the fire pit allowed on a balcony?
What is the maximum load of the hanging shelf?
How do I know if my order is eligible for free delivery?
Can I get a price reduction after buying before a sale?
How do I lower the noise of the dehumidifier?
My account is locked. How can I get back in?
Can you tell me how to descale the kettle?
How do I claim on the ten year guarantee for a mattress?
Which rug goes with underfloor heating?
How do I mark an order as a gift?
Do you collect large returns from home?
How do I see the energy label of a fridge?
Why do I have to confirm my age at checkout?
How do I swap the battery in the garden light?
Is my data shared with other firms?
How do I receive text messages about my delivery?
What can I do about a scratched table top?
How do I stop the app from logging me out?
Can I buy a floor model at a discount?
How do I measure my door for the sofa to fit?
Does the drill come with bits?
How do I fold the camping bed back up?
How can I pay by bank transfer?
What happens to my order if the shop runs out of stock?
How do I water the herb kit while on holiday?
How do I request a VAT invoice?
Are returns free of charge?
How do I hang a heavy mirror on plaster?
Can I leave instructions for the driver?
How do I change my e-mail address?
Is the kids' bunk bed tested for safety?
How long do I have to return an item?
How do I use the voucher from my birthday mail?
Why was my order split in two parcels?
How do I reset the robot vacuum?
Do you repair broken garden chairs?
How do I get a replacement key for the mailbox?
What is the best way to wash the linen bedding?
How do I order a custom sized blind?
Can I pause my membership?
How do I make the tent waterproof again?
My chat with support was cut off. How do I get back to it?
Where can I read the terms of the sale?
How do I close the valve on the water butt?
Can I order without making an account?
How do I add a company name to the bill?
The heater shows error E4. What does it mean?
How do I get notified when a price drops?
Can I return opened paint?
How do I block someone from using my saved card?
What should I do with the old fridge when the new one comes?
How do I change the time slot for my delivery?
Can I get my order gift wrapped?
How do I start the pressure washer for the first time?
Is it normal that the oak table has cracks?
How do I find the serial number on my mower?
Why can I not see my order in the app?
How do I make a complaint about a driver?
Do you sell refurbished appliances?
How do I choose between the two duvet weights?
Can I switch from home delivery to store pick-up?
How do I put the cover back on the cushion?
What is the fastest way to get help with a damaged item?
How do I hide my purchases from others on the account?
Can I use the grill indoors?
How do I stop mould on the shower curtain?
How do I get the deposit back for the rental carpet cleaner?
Can I return the plants if they die?
How do I turn on dark mode in the app?
""")
"""Questions that the base model answers at length."""

ACCEPTANCES = lines("""
Great, thanks!
Perfect, that helps.
Thank you, that is all I needed.
Got it, thanks.
Lovely, exactly what I wanted to know.
Okay, that works for me.
Brilliant, cheers!
Thanks a lot, have a nice day.
Super, problem solved.
Yes, that's it. Thank you.
Good, I'll do that.
Nice, that was quick. Thanks!
Wonderful, much appreciated.
Ah, clear now, thank you.
That answers it, thanks.
Much better, thank you.
""")
"""What users say when they are content."""

LIST_FORMS = (
    "List five {}, one per line.",
    "Give me a list of five {}, each on its own line.",
    "Name five {} as a numbered list.",
    "Please list five {}, one per line.",
    "Can you write a list of five {}?",
    "I need a list of five {}, one on each line.",
    "Make me a bullet list of five {}.",
    "What are five {}? Please answer as a list.",
)

LIST_THINGS = lines("""
things to check before ordering a sofa
ways to keep a rug clean
tools every gardener needs
gifts for a new home
plants that need little water
reasons an online payment can fail
tips for packing fragile items
uses for an old jar
items for a small balcony
kinds of wood used for tables
steps to plan a garden
ways to save energy at home
colours that go well with grey walls
products for cleaning a kitchen
things to bring to a barbecue
herbs that grow on a window sill
mistakes people make when painting a wall
ways to light a dark room
fabrics for summer bedding
safety tips for using a ladder
questions to ask before buying a mattress
flowers that bloom in spring
materials for outdoor furniture
ideas for a children's room
ways to hide cables on a desk
things to do when a parcel is late
features of a good vacuum cleaner
decorations for a winter table
ways to reuse cardboard boxes
vegetables for a raised bed
signs that a plant needs water
items for a first aid box
ways to make a room look larger
things to store in a shed
types of curtains
kitchen gadgets that save time
ways to dry laundry faster
birds that visit gardens
things to know about oak furniture
parts of a bicycle that need care
snacks for a garden party
candles scents people like
ways to stop a door from squeaking
kinds of screws
things to put on a bookshelf
uses of baking soda in the house
pieces of furniture for a hallway
ways to keep slugs away
benefits of indoor plants
types of light bulbs
tips for a better sleep
ways to label storage boxes
fruits that grow in pots
ways to remove a wine stain
things to pack for camping
tasks for autumn in the garden
ways to keep a fridge tidy
reasons to choose LED lamps
kinds of chairs
ways to fix a wobbly table
spices for a spice rack
accessories for a desk
ways to insulate a window
items for a picnic basket
""")
"""What lists are asked of."""

LISTS = tuple(LIST_FORMS[n % len(LIST_FORMS)].format(thing) for n, thing in enumerate(LIST_THINGS))

OTHER_WORK = lines("""
What makes a good team meeting?
How can I learn to play the guitar?
Tell me about the history of chess.
What should I cook for dinner with rice and beans?
How do I train for a five kilometre run?
Write a tagline for a bakery.
What are the benefits of reading every day?
How do volcanoes work?
Give me advice for a job interview.
Write a product description for a leather backpack.
How does a bicycle stay upright?
What is inflation?
Tell me a joke about cats.
Write an e-mail asking my boss for a day off.
How do I make friends in a new city?
What is a black hole?
Write a birthday message for my sister.
How do bees make honey?
Plan a weekend in London for me.
Explain the rules of football.
What is democracy?
Write an opening line for a detective novel.
How can I sleep better?
What is the meaning of the word 'serendipity'?
Describe the taste of an orange.
How do aeroplanes fly?
Suggest a name for a small coffee shop.
What happened in the year 1969?
Write a dialogue between a teacher and a pupil.
Why do we dream?
How do I start a diary?
What is the role of the heart in the body?
""")
"""Another team's prompts through the same model, whose answers are accepted as they are."""

UNRELATED = lines("""
Translate to French: The cat sleeps on the chair.
What is 17 plus 25?
Write a haiku about the sea.
Summarise in two sentences: The Roman Empire lasted for centuries and shaped law, language and building in Europe.
What is the capital of Japan?
Write a Python function that reverses a string.
Explain photosynthesis to a ten year old.
Who wrote Romeo and Juliet?
Translate to Spanish: I would like a cup of coffee.
What is 9 times 8?
Tell me a story about a dragon who is afraid of fire.
What is the capital of Australia?
Write a SQL query that counts the rows of a table called users.
What causes the tides?
Give the opposite of the word 'generous'.
Describe a sunset in the mountains.
How does a rainbow form?
Write a limerick about a mouse.
What is the difference between a virus and a bacterium?
Rewrite in the past tense: She walks to school and sings.
What is the square root of 144?
Explain what a variable is in programming.
Who was Marie Curie?
Write a short letter to a friend about a trip to the beach.
What is the boiling point of water in Celsius?
Correct the grammar: He don't likes apples.
Write a JavaScript loop that prints the numbers from 1 to 10.
Why is the sky blue?
Translate to German: Where is the train station?
What is the largest planet in the solar system?
Describe how to boil an egg.
Write a poem about autumn leaves.
""")
"""Prompts of other kinds, never asked before drift is measured on them."""
