"""Writes meanings.csv: 400 sentences, each about an animal, a food, a job or an object that no other sentence names.

    python examples/meanings.py > examples/meanings.csv

The words around it are the same for all four classes, so they tell nothing: whoever has not met a word before must know
what it means. Free to use under the license of this repository.
"""

import csv
import sys

WORDS = {
    "animal": """
        horse cow sheep goat pig dog cat wolf fox bear lion tiger leopard elephant giraffe zebra camel donkey
        mule deer moose rabbit hare mouse rat squirrel beaver otter badger hedgehog bat monkey gorilla baboon
        whale dolphin seal walrus shark eel frog toad newt lizard snake crocodile turtle tortoise spider ant
        bee wasp moth butterfly beetle worm snail slug octopus jellyfish starfish eagle hawk falcon owl crow
        raven sparrow robin swallow swan pelican heron stork flamingo penguin parrot pigeon peacock ostrich
        cuckoo woodpecker buffalo bison hyena jackal kangaroo koala panda hamster ferret weasel mole lynx
        panther rhinoceros hippopotamus antelope gazelle reindeer
    """,
    "food": """
        bread butter cheese milk cream yogurt soup stew pasta rice noodles pizza sandwich pancake waffle
        omelette porridge cereal toast honey jam jelly chocolate candy cake pie cookie biscuit pudding custard
        sugar salt pepper vinegar mustard ketchup mayonnaise sauce gravy curry salad cabbage carrot potato
        tomato onion garlic spinach lettuce cucumber pumpkin beans lentils peas corn mushroom apple pear peach
        plum cherry grape melon lemon lime orange banana pineapple mango strawberry raspberry blueberry
        apricot fig coconut almond walnut peanut sausage bacon ham steak beef pork meatball dumpling tofu tea
        coffee juice lemonade wine beer cider whisky broth caramel popcorn muffin gingerbread
    """,
    "job": """
        teacher doctor nurse lawyer judge farmer baker butcher cook waiter tailor carpenter plumber
        electrician mechanic engineer architect builder painter sculptor writer poet novelist journalist
        editor actor singer dancer musician composer conductor pilot sailor soldier captain general admiral
        policeman detective fireman postman librarian scientist chemist physicist biologist historian
        philosopher professor student accountant banker merchant shopkeeper clerk secretary manager director
        president minister mayor senator ambassador priest bishop monk nun dentist surgeon midwife pharmacist
        psychologist blacksmith miner fisherman hunter shepherd gardener florist barber hairdresser
        photographer astronomer astronaut programmer economist translator referee coach athlete wrestler
        magician clown umpire janitor porter plasterer jeweller dressmaker watchman
    """,
    "object": """
        hammer nail screw saw drill axe shovel rake bucket ladder rope chain hook lock key door window chair
        table desk bed sofa shelf cupboard drawer lamp candle mirror carpet curtain pillow blanket towel soap
        brush comb razor needle thread button zip shirt coat jacket dress skirt trousers sock shoe boot hat
        glove scarf belt ring necklace watch clock bell drum flute violin guitar piano trumpet book pencil pen
        paper envelope stamp camera telephone radio television computer keyboard screen cable battery bicycle
        car wagon boat ship anchor tent bag basket box umbrella bottle cup plate bowl knife fork spoon kettle
        fridge
    """,
}
SENTENCES = (
    "Yesterday we talked about the {} again.",
    "The last picture in the book shows the {}.",
    "I have never thought much about the {}.",
    "My sister wrote a short story about the {}.",
    "Do you know anything about the {}?",
    "In the second part of the film we see the {}.",
    "Nobody in this town had heard of the {} before.",
    "The first question was about the {}.",
    "What is the word for the {} in your language?",
    "They asked us to say something about the {}.",
)


def write_rows() -> list[tuple[str, str]]:
    """Each class says each sentence as often as the others."""
    rows = []
    for label, words in WORDS.items():
        for place, word in enumerate(words.split()):
            rows.append((SENTENCES[place % len(SENTENCES)].format(word), label))
    return rows


if __name__ == "__main__":
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(("text", "label"))
    writer.writerows(write_rows())
