"""Words with all their forms, and which of them go together.

word lists -> Noun, Verb, Frame

Every form is written out: no rule of spelling can go wrong. What a verb may take as its object, and how often such a
thing happens, is listed with the verb, so that sentences are things people say.
"""

from dataclasses import dataclass
from typing import Literal

Often = Literal["day", "week", "year", "night"]


@dataclass(frozen=True, slots=True)
class Noun:
    singular: str
    plural: str
    adjectives: tuple[str, ...]
    """Those that describe it well."""


@dataclass(frozen=True, slots=True)
class Verb:
    base: str
    third: str
    past: str
    participle: str
    gerund: str


@dataclass(frozen=True, slots=True)
class Frame:
    """A transitive verb with its objects."""

    verb: Verb
    article: Literal["a", "the"]
    """Of the object, where the sentence says what happens again and again."""
    often: Often
    objects: tuple[Noun, ...]


@dataclass(frozen=True, slots=True)
class Activity:
    """An intransitive verb with what may follow it."""

    verb: Verb
    often: Often
    tails: tuple[str, ...]


BE = Verb("be", "is", "was", "been", "being")
HAVE = Verb("have", "has", "had", "had", "having")
DO = Verb("do", "does", "did", "done", "doing")

EVERY: dict[Often, tuple[str, ...]] = {
    "day": ("every day", "every morning", "every afternoon", "every evening"),
    "week": ("every week", "every Monday", "every Friday", "every Sunday"),
    "year": ("every year", "every spring", "every summer"),
    "night": ("every night", "every evening"),
}


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


NAMES = _words("Anna Peter Maria David Sarah Thomas Julia Daniel Emma Robert Laura Michael Alice George Helen Martin")


def _nouns(lines: str) -> dict[str, Noun]:
    """A line: singular plural: adjectives."""
    nouns = {}
    for line in lines.strip().splitlines():
        forms, adjectives = line.split(":")
        singular, plural = forms.split()
        nouns[singular] = Noun(singular, plural, tuple(adjectives.split()))
    return nouns


PERSONS = _nouns("""
teacher teachers: young kind strict patient
doctor doctors: young busy friendly tired
farmer farmers: old poor honest tired
engineer engineers: young clever busy
child children: small quiet clever happy
woman women: young old tall kind
man men: young old tall angry
student students: young lazy clever tired
artist artists: young poor famous
nurse nurses: young kind busy tired
lawyer lawyers: young clever honest busy
waiter waiters: young polite tired
driver drivers: careful tired old
actress actresses: young famous old
policeman policemen: tall strict young
gardener gardeners: old patient busy
secretary secretaries: busy polite new
boy boys: small tall lazy
girl girls: small tall clever
thief thieves: young clever nervous
""")

KIN = _nouns("""
brother brothers: younger older
sister sisters: younger older
uncle uncles: old rich
aunt aunts: old rich
cousin cousins: younger older
friend friends: old best
neighbour neighbours: old new friendly
daughter daughters: younger older
son sons: younger older
""")

ANIMALS = _nouns("""
dog dogs: small old hungry brown
cat cats: small old hungry black
horse horses: young brown strong
goose geese: white hungry angry
sheep sheep: young white hungry
mouse mice: small grey hungry
wolf wolves: grey hungry old
calf calves: young brown weak
pony ponies: small brown old
rabbit rabbits: small white young
ox oxen: strong old tired
bird birds: small yellow young
butterfly butterflies: white blue small
fish fish: small large silver
""")

THINGS = _nouns("""
letter letters: long short polite
poem poems: long short sad
story stories: long short funny
report reports: long short dull
book books: thick old useful
newspaper newspapers: local old
message messages: long short secret
contract contracts: long new
cup cups: blue small old
plate plates: blue clean old
glass glasses: small clean
window windows: large small broken
door doors: old heavy green
gate gates: old heavy iron
box boxes: heavy small wooden
key keys: old small rusty
coin coins: old silver
umbrella umbrellas: black old
knife knives: old sharp long
shelf shelves: old wooden long
house houses: old large white
boat boats: old small wooden
bridge bridges: old narrow wooden
wall walls: high long low
roof roofs: old red
fence fences: old white wooden
car cars: old new expensive
bus buses: old empty red
truck trucks: old heavy empty
bicycle bicycles: old new expensive
clock clocks: old broken expensive
shirt shirts: white clean old
hat hats: black new strange
coat coats: warm long old
scarf scarves: warm red long
bag bags: heavy old leather
basket baskets: large small empty
ladder ladders: long heavy wooden
ball balls: red small heavy
stone stones: small heavy flat
picture pictures: large small strange
map maps: old large useful
photograph photographs: old small strange
painting paintings: old large expensive
toy toys: small wooden cheap
chair chairs: old wooden comfortable
apple apples: green red sweet
egg eggs: fresh brown large
orange oranges: sweet large fresh
sandwich sandwiches: large small fresh
potato potatoes: large small fresh
tomato tomatoes: red large fresh
pumpkin pumpkins: huge small round
cake cakes: large small delicious
mushroom mushrooms: large small brown
loaf loaves: fresh large small
pie pies: large small delicious
meal meals: simple large delicious
tree trees: young tall old
flower flowers: white yellow wild
leaf leaves: yellow dry brown
rose roses: white red wild
hedge hedges: high thick old
kitchen kitchens: small dirty large
room rooms: small dark large
floor floors: dirty wooden
shop shops: small new expensive
library libraries: large new old
museum museums: old small famous
village villages: small quiet old
song songs: old sad new
film films: long dull old
match matches: long important
race races: long important
prize prizes: large important small
parcel parcels: heavy large small
bell bells: old heavy large
""")

NOUNS = {**PERSONS, **KIN, **ANIMALS, **THINGS}


def _frames(lines: str) -> tuple[Frame, ...]:
    """A line: the five forms: article, how often: objects."""
    frames = []
    for line in lines.strip().splitlines():
        forms, habit, objects = line.split(":")
        article, often = habit.split()
        assert article in ("a", "the"), line
        assert often in EVERY, line
        frames.append(Frame(Verb(*forms.split()), article, often, tuple(NOUNS[noun] for noun in objects.split())))  # type: ignore[arg-type]
    return tuple(frames)


FRAMES = _frames("""
break breaks broke broken breaking: a week: cup plate glass
write writes wrote written writing: a week: letter poem story report
read reads read read reading: a week: book newspaper poem report
build builds built built building: a year: house boat bridge wall
buy buys bought bought buying: a week: newspaper cake shirt toy scarf
sell sells sold sold selling: a week: car horse painting clock
eat eats ate eaten eating: a day: apple egg orange sandwich
cook cooks cooked cooked cooking: a day: meal potato egg
bake bakes baked baked baking: a week: cake loaf pie
paint paints painted painted painting: the year: fence door gate house boat
draw draws drew drawn drawing: a week: picture map horse tree leaf bird
sing sings sang sung singing: a day: song
open opens opened opened opening: the day: door window gate box shop library
close closes closed closed closing: the day: door window gate shop museum
clean cleans cleaned cleaned cleaning: the week: kitchen room window knife shelf
wash washes washed washed washing: the week: car dog shirt plate
repair repairs repaired repaired repairing: a week: bicycle clock boat chair
hide hides hid hidden hiding: the night: key box knife bag
steal steals stole stolen stealing: a week: apple bicycle coin loaf
catch catches caught caught catching: a day: fish mouse butterfly
feed feeds fed fed feeding: the day: cat horse dog goose sheep calf rabbit
ride rides rode ridden riding: the day: horse bicycle pony
drive drives drove driven driving: the day: bus truck car
carry carries carried carried carrying: a day: box bag basket ladder
throw throws threw thrown throwing: a day: ball stone
cut cuts cut cut cutting: the year: hedge
plant plants planted planted planting: a year: tree rose
grow grows grew grown growing: a year: pumpkin rose
pick picks picked picked picking: a day: apple flower tomato
teach teaches taught taught teaching: the day: child student girl boy
help helps helped helped helping: the day: neighbour child student woman
visit visits visited visited visiting: the week: museum neighbour library village uncle
call calls called called calling: the week: doctor lawyer aunt
invite invites invited invited inviting: the week: neighbour artist cousin
thank thanks thanked thanked thanking: the day: driver nurse waiter
follow follows followed followed following: the night: thief man dog
send sends sent sent sending: a week: letter message parcel
bring brings brought brought bringing: a week: cake basket flower
take takes took taken taking: a week: photograph picture
iron irons ironed ironed ironing: the week: shirt scarf coat
fold folds folded folded folding: the day: shirt map newspaper
watch watches watched watched watching: a week: film match race
study studies studied studied studying: the day: map report painting
copy copies copied copied copying: a day: letter report picture
translate translates translated translated translating: a week: letter poem book
print prints printed printed printing: a day: report map photograph
sign signs signed signed signing: a day: letter report contract
lift lifts lifted lifted lifting: a day: box stone ladder
shut shuts shut shut shutting: the night: window gate door
ring rings rang rung ringing: the day: bell
make makes made made making: a week: basket chair toy shelf
sweep sweeps swept swept sweeping: the day: floor kitchen room
lock locks locked locked locking: the night: door gate shop
choose chooses chose chosen choosing: a week: book song film
borrow borrows borrowed borrowed borrowing: a week: book ladder umbrella bicycle
""")

# What happens to people rather than being done: "is losing a key" is said of no one.
ONCE_FRAMES = _frames("""
lose loses lost lost losing: a week: key umbrella coin
find finds found found finding: a week: key coin mushroom
forget forgets forgot forgotten forgetting: the week: key umbrella bag
receive receives received received receiving: a week: letter parcel message
meet meets met met meeting: the week: lawyer friend engineer secretary
win wins won won winning: a year: prize match race
""")


def _activities(lines: str) -> tuple[Activity, ...]:
    """A line: the five forms: how often: tails."""
    activities = []
    for line in lines.strip().splitlines():
        forms, often, tails = line.split(":")
        assert often.strip() in EVERY, line
        tail_list = tuple(tail.strip() for tail in tails.split(";"))
        activities.append(Activity(Verb(*forms.split()), often.strip(), tail_list))  # type: ignore[arg-type]
    return tuple(activities)


ACTIVITIES = _activities("""
sleep sleeps slept slept sleeping: night: in the small room; on the sofa
run runs ran run running: day: in the park; to the station
swim swims swam swum swimming: week: in the lake; in the river
sit sits sat sat sitting: day: under the tree; by the window
stand stands stood stood standing: day: at the gate; in the rain
laugh laughs laughed laughed laughing: day: loudly; at the story
cry cries cried cried crying: night: in the dark; quietly
sing sings sang sung singing: week: in the kitchen; in the choir
work works worked worked working: day: in the garden; at the hospital
wait waits waited waited waiting: day: at the station; for the bus
walk walks walked walked walking: day: to the market; along the river
travel travels travelled travelled travelling: year: to London; by train
stay stays stayed stayed staying: week: at home; in the village
speak speaks spoke spoken speaking: week: at the meeting; on the radio
play plays played played playing: day: in the street; in the garden
dance dances danced danced dancing: week: in the kitchen; at the club
smile smiles smiled smiled smiling: day: at the camera; in the mirror
rest rests rested rested resting: day: in the shade; on the grass
shout shouts shouted shouted shouting: day: at the dog; in the street
""")

ANIMAL_ACTIVITIES = _activities("""
sleep sleeps slept slept sleeping: night: in the barn; under the tree
run runs ran run running: day: across the field; around the house
drink drinks drank drunk drinking: day: from the river; in the yard
eat eats ate eaten eating: day: in the barn; in the field
hide hides hid hidden hiding: day: behind the house; in the grass
lie lies lay lain lying: day: in the sun; on the grass
""")

FOUND = {
    "in the kitchen": _words("mouse cake chair cup knife clock loaf basket"),
    "in the garden": _words("tree rabbit bird fence ladder rose butterfly goose"),
    "in the village": _words("library shop museum"),
    "near the station": _words("shop library wall bridge museum"),
    "behind the house": _words("tree fence wolf truck bicycle boat pony sheep"),
    "in the museum": _words("painting map clock photograph coin boat"),
    "on the table": _words("letter key glass plate hat egg report umbrella"),
}
PLACES = tuple(FOUND)
TRADES = _words("teacher doctor farmer engineer student artist nurse lawyer driver gardener secretary")
MOODS = _words("tired happy hungry busy ill angry nervous proud")
STUFFS = _words("iron wooden leather silver local wild secret")
"""Adjectives that stand before a noun rather than alone."""
PASSING = _words("tired busy happy angry nervous new poor")
"""Adjectives that tell how somebody is, not what."""

UNWILLED = _words("cry laugh smile break steal lose find forget receive meet win shout")
"""What nobody must or can do on a day."""
UNFIT = {
    "build": _words("old"),
    "make": _words("old empty"),
    "plant": _words("old tall"),
    "print": _words("old"),
    "repair": _words("new"),
    "wash": _words("clean new"),
    "lock": _words("broken"),
    "open": _words("broken"),
    "close": _words("broken"),
    "shut": _words("broken"),
    "break": _words("broken"),
}
"""Adjectives that do not go with a verb, whatever they describe."""
