"""Analogies: a is to b as c is to d.

pairs of words by family -> Analogy
"""

from dataclasses import dataclass
from functools import cache
from itertools import combinations

STEPS = (1, 2, 5)
"""How far apart two pairs of a list stand that make an analogy."""


@dataclass(frozen=True, slots=True)
class Analogy:
    family: str
    a: str
    b: str
    c: str
    d: str


@cache
def list_analogies() -> tuple[Analogy, ...]:
    """Single lower-case words, four different ones each time; always the same and in the same order."""
    analogies = []
    for family, line in _FAMILIES.items():
        pairs = [tuple(pair.split(":")) for pair in line.split()]
        for (i, (a, b)), (j, (c, d)) in combinations(enumerate(pairs), 2):
            if j - i in STEPS and len({a, b, c, d}) == 4:
                analogies.append(Analogy(family, a, b, c, d))
    return tuple(analogies)


_FAMILIES = {
    "capital": "paris:france london:england berlin:germany rome:italy madrid:spain tokyo:japan beijing:china "
    "moscow:russia athens:greece cairo:egypt vienna:austria warsaw:poland lisbon:portugal dublin:ireland oslo:norway "
    "ottawa:canada",
    "nationality": "france:french england:english germany:german italy:italian spain:spanish japan:japanese "
    "china:chinese russia:russian greece:greek egypt:egyptian poland:polish ireland:irish norway:norwegian "
    "canada:canadian turkey:turkish sweden:swedish",
    "currency": "japan:yen india:rupee russia:rouble mexico:peso england:pound america:dollar china:yuan korea:won "
    "poland:zloty brazil:real",
    "gender": "king:queen man:woman boy:girl father:mother brother:sister son:daughter uncle:aunt husband:wife "
    "prince:princess actor:actress nephew:niece waiter:waitress hero:heroine grandfather:grandmother",
    "plural": "cat:cats child:children man:men mouse:mice foot:feet house:houses city:cities wolf:wolves box:boxes "
    "tooth:teeth knife:knives book:books goose:geese story:stories leaf:leaves",
    "past tense": "walk:walked go:went see:saw take:took write:wrote sing:sang play:played bring:brought find:found "
    "give:gave break:broke open:opened teach:taught run:ran speak:spoke",
    "comparative": "big:bigger small:smaller good:better bad:worse long:longer strong:stronger happy:happier "
    "easy:easier old:older hot:hotter young:younger late:later heavy:heavier cheap:cheaper",
    "superlative": "big:biggest small:smallest good:best bad:worst long:longest strong:strongest happy:happiest "
    "easy:easiest old:oldest hot:hottest young:youngest late:latest heavy:heaviest cheap:cheapest",
    "opposite": "hot:cold big:small good:bad old:young open:closed early:late rich:poor day:night up:down "
    "left:right black:white strong:weak happy:sad fast:slow full:empty",
    "workplace": "teacher:school doctor:hospital farmer:farm judge:court actor:theatre priest:church sailor:ship "
    "cook:kitchen librarian:library banker:bank miner:mine pilot:plane",
    "young animal": "dog:puppy cat:kitten cow:calf sheep:lamb horse:foal duck:duckling bear:cub goose:gosling "
    "goat:kid frog:tadpole",
    "gerund": "walk:walking go:going write:writing run:running sing:singing make:making swim:swimming lie:lying "
    "take:taking sit:sitting play:playing drive:driving",
}
