//! The vocabulary of scenery: places, hours and skies, and phrases that only look like them.

use super::rows::Meaning::{Hour, Particles, Place, Sky};
use super::rows::{VocabularyRow, ambiguous, row};
use crate::direction::kinds::{ParticleAmount, ParticleKind};
use crate::direction::phrases::PhraseContext::{Near, OnlyNear};
use crate::scene::{ScenePlace, SkyCondition, TimeOfDay};

/// Articles and prepositions beside which an ambiguous word is German.
const GERMAN_CONTEXT: &[&str] = &[
    "der", "die", "das", "den", "dem", "des", "ein", "eine", "einem", "einen", "einer", "eines",
    "am", "im", "zum", "vom", "beim", "uber", "und", "stiller", "ruhiger", "dunkler", "leerer",
];
/// The same in French.
const FRENCH_CONTEXT: &[&str] = &[
    "le", "la", "les", "l", "un", "une", "des", "du", "au", "aux", "dans", "petit", "petite",
    "grand", "grande", "vieux", "vieille",
];
const SPACE_CONTEXT: &[&str] = &[
    "in",
    "into",
    "through",
    "from",
    "outer",
    "deep",
    "travel",
    "astronaut",
    "rocket",
    "stars",
    "floating",
    "vast",
    "cosmic",
    "planet",
    "galaxy",
];
const WAVES_CONTEXT: &[&str] = &[
    "crashing",
    "rolling",
    "breaking",
    "gentle",
    "big",
    "huge",
    "ocean",
    "sea",
    "beach",
    "shore",
    "rocks",
    "foam",
    "stormy",
    "high",
    "turquoise",
    "surf",
    "surfer",
    "surfing",
    "small",
    "blue",
];
const ICE_CONTEXT: &[&str] = &[
    "snow", "winter", "arctic", "lake", "glacier", "field", "floe", "floes", "sheet", "covered",
    "polar", "pack", "frozen", "river",
];
const FROZEN_CONTEXT: &[&str] = &[
    "lake",
    "river",
    "sea",
    "waterfall",
    "ground",
    "landscape",
    "tundra",
    "forest",
    "field",
    "fields",
    "world",
    "pond",
    "ocean",
    "mountains",
    "mountain",
    "north",
];
const DAY_CONTEXT: &[&str] = &[
    "sunny",
    "clear",
    "bright",
    "summer",
    "rainy",
    "cloudy",
    "foggy",
    "hot",
    "spring",
    "autumn",
    "beautiful",
    "windy",
    "the",
];
const STARS_CONTEXT: &[&str] = &[
    "twinkling",
    "shining",
    "sky",
    "falling",
    "glittering",
    "bright",
    "above",
    "under",
    "beneath",
    "shooting",
    "moon",
    "million",
];
const DARK_CONTEXT: &[&str] = &[
    "room", "bedroom", "forest", "woods", "street", "alley", "sky", "city", "house", "corridor",
    "kitchen", "attic", "sea", "wald", "strasse", "zimmer", "nacht", "gasse", "raum",
];

/// What a drawn scene can show.
pub(super) const PLACES: &[VocabularyRow] = &[
    row(
        &[Place(ScenePlace::Space)],
        [
            "outer space|deep space|galaxy|galaxies|nebula|cosmos|cosmic|planet|planets|universe|asteroid|asteroids|spaceship|starship|space station|space shuttle|space ship|orbital|interstellar",
            "weltraum|weltall|galaxie|galaxien|kosmos|planeten|raumschiff|sternennebel",
            "espacio exterior|en el espacio|galaxia|galaxias|nebulosa|planeta|planetas|universo|nave espacial",
            "galaxies|galaxie|nébuleuse|planète|planètes|univers|vaisseau spatial|dans l'espace",
            "宇宙|銀河|星雲|惑星",
            "太空|宇宙|银河|星系|星云|行星|宇宙飞船",
        ],
    ),
    ambiguous(
        Near(SPACE_CONTEXT),
        &[Place(ScenePlace::Space)],
        ["space", "", "", "", "", ""],
    ),
    row(
        &[Place(ScenePlace::Mountains)],
        [
            "mountain|mountains|mountain range|peak|peaks|alps|alpine|ridge|summit|cliff|cliffs|canyon|himalaya|himalayas|volcano",
            "berg|berge|bergen|gebirge|gipfel|alpen|felsen|schlucht|vulkan|berglandschaft|bergkette",
            "montaña|montañas|cordillera|sierra|acantilado|acantilados|cañón|volcán|cumbre",
            "montagne|montagnes|sommet|alpes|falaise|falaises|volcan",
            "山|山々|山脈|峰|崖|火山|富士山",
            "山|高山|群山|山脉|山峰|悬崖|峡谷|火山",
        ],
    ),
    row(
        &[Place(ScenePlace::Mountains), Place(ScenePlace::Snow)],
        ["", "", "pico nevado", "pic enneigé", "雪山", "雪山|雪峰"],
    ),
    row(
        &[Place(ScenePlace::Mountains), Place(ScenePlace::Sea)],
        ["", "bergsee", "", "", "", ""],
    ),
    row(
        &[Place(ScenePlace::City)],
        [
            "city|cities|cityscape|skyline|town|street|streets|skyscraper|skyscrapers|downtown|urban|building|buildings|metropolis|alley|tokyo|manhattan|new york|london|paris|hong kong|shanghai|cyberpunk",
            "stadt|städte|großstadt|innenstadt|altstadt|straße|straßen|hochhaus|hochhäuser|wolkenkratzer|gasse|marktplatz",
            "ciudad|ciudades|calle|calles|rascacielos|edificio|edificios|pueblo|callejón",
            "ville|villes|gratte-ciel|immeuble|immeubles|ruelle|boulevard",
            "街|都市|町|通り|ビル|高層ビル|東京|路地|都会",
            "城市|街|街道|街头|都市|高楼|摩天大楼|小镇|上海|北京|东京|香港|小巷|巷子",
        ],
    ),
    row(
        &[Place(ScenePlace::City), Hour(TimeOfDay::Night)],
        ["neon", "", "neón", "", "ネオン|夜景", "霓虹|夜市|夜景"],
    ),
    ambiguous(
        OnlyNear(FRENCH_CONTEXT),
        &[Place(ScenePlace::City)],
        ["", "", "", "rue|rues", "", ""],
    ),
    row(
        &[Place(ScenePlace::Forest)],
        [
            "forest|forests|woods|woodland|tree|trees|pine|pines|jungle|rainforest|taiga|grove",
            "wald|wälder|wäldern|waldweg|waldrand|baum|bäume|bäumen|dschungel|regenwald|kiefern|tannen|birkenwald",
            "bosque|bosques|selva|jungla|árbol|árboles|pinos|arboleda",
            "forêt|forêts|arbre|arbres|sapins",
            "森|森林|林|木々|竹林|ジャングル",
            "森林|树林|林间|丛林|竹林|树|树木|雨林",
        ],
    ),
    ambiguous(
        OnlyNear(FRENCH_CONTEXT),
        &[Place(ScenePlace::Forest)],
        ["", "", "", "bois", "", ""],
    ),
    row(
        &[Place(ScenePlace::Forest), Place(ScenePlace::Sea)],
        ["", "waldsee", "", "", "", ""],
    ),
    row(
        &[Place(ScenePlace::Forest), Place(ScenePlace::Snow)],
        ["", "winterwald", "", "", "", ""],
    ),
    row(
        &[Place(ScenePlace::Sea)],
        [
            "sea|seaside|seascape|ocean|beach|coast|coastline|shore|lake|river|water|waterfall|harbor|harbour|bay|island|islands|fjord|lighthouse|boat|boats|sailboat|ship|ships|sailing|lagoon|pond|pier",
            "meer|ozean|strand|küste|ufer|fluss|hafen|bucht|insel|inseln|leuchtturm|boot|boote|schiff|schiffe|segelboot|wasser|wellen|ostsee|nordsee|teich|wasserfall",
            "mar|océano|playa|costa|orilla|lago|río|puerto|bahía|isla|islas|faro|barco|barcos|velero|olas|agua|cascada",
            "mer|océan|plage|côte|rivage|lac|rivière|fleuve|baie|île|îles|phare|bateau|bateaux|voilier|vagues|cascade",
            "海|海岸|浜辺|ビーチ|湖|川|港|島|灯台|船|波|海辺|水辺|滝",
            "海|大海|海洋|海边|海滩|沙滩|海岸|湖|湖泊|河|河流|港口|岛|灯塔|船|海浪|波浪|水面|瀑布",
        ],
    ),
    ambiguous(
        Near(WAVES_CONTEXT),
        &[Place(ScenePlace::Sea)],
        ["waves", "", "", "", "", ""],
    ),
    ambiguous(
        OnlyNear(GERMAN_CONTEXT),
        &[Place(ScenePlace::Sea)],
        ["", "see", "", "", "", ""],
    ),
    ambiguous(
        OnlyNear(FRENCH_CONTEXT),
        &[Place(ScenePlace::Sea)],
        ["", "", "", "port|eau", "", ""],
    ),
    row(
        &[Place(ScenePlace::Desert)],
        [
            "desert|deserts|dune|dunes|sahara|sand|sands",
            "wüste|düne|dünen",
            "desierto|duna|dunas",
            "désert|dune|dunes",
            "砂漠|砂丘",
            "沙漠|沙丘|戈壁",
        ],
    ),
    row(
        &[Place(ScenePlace::Snow)],
        [
            "snow|snowy|winter|wintry|icy|arctic|antarctic|antarctica|glacier|glaciers|tundra|iceberg|icebergs",
            "schnee|verschneit|verschneite|verschneiter|verschneiten|verschneites|winterlich|winterlandschaft|schneelandschaft|arktis|gletscher|eisberg",
            "nieve|nevado|nevados|nevadas|invierno|glaciar|ártico",
            "neige|enneigé|enneigée|enneigés|enneigées|hiver|banquise",
            "雪|雪景色|雪原|冬|氷河",
            "雪|雪地|雪原|冬天|冬日|冰川",
        ],
    ),
    ambiguous(
        Near(ICE_CONTEXT),
        &[Place(ScenePlace::Snow)],
        ["ice", "", "", "", "", ""],
    ),
    ambiguous(
        Near(FROZEN_CONTEXT),
        &[Place(ScenePlace::Snow)],
        ["frozen", "", "", "", "", ""],
    ),
    row(
        &[Place(ScenePlace::Meadow)],
        [
            "meadow|meadows|field|fields|grass|grassland|prairie|hill|hills|hillside|hilltop|valley|countryside|farm|steppe|savanna|garden|park|pasture|vineyard",
            "wiese|wiesen|feld|felder|feldern|gras|hügel|hügeln|tal|garten|weide|bauernhof|blumenwiese",
            "prado|prados|campo|campos|colina|colinas|valle|jardín|parque|pradera|hierba|granja|césped",
            "prairies|colline|collines|vallée|jardin|parc|herbe|campagne|champs",
            "草原|野原|花畑|田んぼ|丘|谷|庭|公園|畑|牧場",
            "草原|草地|田野|山丘|山谷|花园|公园|农场|麦田|稻田|花海",
        ],
    ),
    ambiguous(
        OnlyNear(FRENCH_CONTEXT),
        &[Place(ScenePlace::Meadow)],
        ["", "", "", "champ|pré|ferme", "", ""],
    ),
    row(
        &[Place(ScenePlace::Room)],
        [
            "room|bedroom|livingroom|interior|indoors|kitchen|office|apartment|attic|office space|work space|living space|coworking space|parlour|windowsill|classroom|hallway",
            "zimmer|schlafzimmer|wohnzimmer|küche|büro|innenraum|dachboden|wohnung|fensterbank|kinderzimmer",
            "habitación|dormitorio|cocina|oficina|sala de estar|salón|cuarto|apartamento",
            "chambre|appartement|grenier|intérieur",
            "部屋|寝室|台所|室内|リビング|キッチン|書斎|オフィス|教室",
            "房间|卧室|厨房|客厅|室内|办公室|书房|教室|阁楼",
        ],
    ),
    ambiguous(
        OnlyNear(GERMAN_CONTEXT),
        &[Place(ScenePlace::Room)],
        ["", "raum", "", "", "", ""],
    ),
    ambiguous(
        OnlyNear(FRENCH_CONTEXT),
        &[Place(ScenePlace::Room)],
        ["", "", "", "cuisine|bureau|salon|pièce", "", ""],
    ),
];

/// Hours and skies of a drawn scene.
pub(super) const SKIES: &[VocabularyRow] = &[
    row(
        &[Hour(TimeOfDay::Dawn)],
        [
            "dawn|sunrise|morning|daybreak|first light|before sunrise|before dawn",
            "morgendämmerung|sonnenaufgang|morgen|morgens|morgengrauen|morgenlicht|tagesanbruch",
            "amanecer|alba|madrugada|salida del sol",
            "aube|aurore|lever du soleil|lever de soleil|matin",
            "夜明け|朝|日の出|早朝|朝焼け|明け方",
            "黎明|日出|早晨|清晨|早上|拂晓|晨光",
        ],
    ),
    row(
        &[
            Hour(TimeOfDay::Dawn),
            Particles(ParticleKind::Fog, ParticleAmount::Light),
            Sky(SkyCondition::Foggy),
        ],
        ["", "morgennebel", "", "", "朝霧", "晨雾"],
    ),
    row(
        &[Hour(TimeOfDay::Day)],
        [
            "by day|daytime|noon|midday|afternoon|sunny|daylight|sunshine",
            "mittag|mittags|tagsüber|sonnig|sonnige|sonniger|sonniges|nachmittag|sonnenschein",
            "mediodía|soleado|soleada|de día|pleno día|luz del día",
            "midi|ensoleillé|ensoleillée|après-midi|plein jour|plein soleil",
            "昼|正午|昼間|真昼|午後",
            "中午|正午|白天|下午|午后|阳光明媚",
        ],
    ),
    ambiguous(
        Near(DAY_CONTEXT),
        &[Hour(TimeOfDay::Day)],
        ["day", "", "", "", "", ""],
    ),
    row(
        &[Hour(TimeOfDay::Sunset)],
        [
            "sunset|sundown|dusk|evening|twilight|golden hour|golden light|golden evening|after sunset|setting sun",
            "sonnenuntergang|abend|abends|abenddämmerung|dämmerung|abendlicht|abendrot|goldene stunde",
            "atardecer|ocaso|puesta de sol|crepúsculo|anochecer|hora dorada",
            "coucher de soleil|coucher du soleil|crépuscule|soir|soirée|heure dorée|soleil couchant",
            "夕日|夕陽|夕焼け|夕暮れ|日没|夕方|黄昏",
            "日落|黄昏|傍晚|夕阳|晚霞|落日",
        ],
    ),
    row(
        &[Hour(TimeOfDay::Night)],
        [
            "night|midnight|moonlight|moonlit|moon|starry|starlit|milky way|nighttime|nocturnal|candlelight|candlelit|after dark|after midnight",
            "nacht|nachts|mitternacht|mondlicht|mond|vollmond|sternenhimmel|nachthimmel|sterne|kerzenlicht",
            "noche|medianoche|luna|nocturno|nocturna|estrellado|estrellada|estrellas|luz de las velas",
            "nuit|minuit|lune|nocturne|étoilé|étoilée|étoiles|lueur des bougies",
            "夜|深夜|真夜中|月|月明かり|星空|夜空|満月",
            "夜|夜晚|深夜|午夜|月光|月亮|星空|夜空|晚上|满月|月色|星星",
        ],
    ),
    ambiguous(
        Near(STARS_CONTEXT),
        &[Hour(TimeOfDay::Night)],
        ["stars", "", "", "", "", ""],
    ),
    ambiguous(
        Near(DARK_CONTEXT),
        &[Hour(TimeOfDay::Night)],
        ["dark", "", "", "", "", ""],
    ),
    ambiguous(
        Near(DARK_CONTEXT),
        &[Hour(TimeOfDay::Night)],
        ["", "dunkel|dunkle|dunkler|dunklen|dunkles", "", "", "", ""],
    ),
    row(
        &[Sky(SkyCondition::Fair)],
        [
            "clear sky|clear skies|blue sky|blue skies|cloudless",
            "blauer himmel|klarer himmel|wolkenlos",
            "cielo despejado|cielo azul",
            "ciel bleu|ciel dégagé",
            "青空|晴れ",
            "蓝天|晴天|晴空",
        ],
    ),
    row(
        &[Sky(SkyCondition::Cloudy)],
        [
            "cloudy|clouds|overcast|rain|rainy|raining|drizzle|drizzling|downpour|grey sky|gray sky",
            "bewölkt|bewölkter|wolken|wolkig",
            "nublado|nubes",
            "nuageux|nuages",
            "曇り|曇り空|雲",
            "多云|阴天|乌云|云",
        ],
    ),
    row(
        &[Sky(SkyCondition::Stormy)],
        [
            "storm|storms|stormy|storm clouds|thunder|thunderstorm|thunderstorms|rainstorm|tempest|hurricane|lightning",
            "sturm|stürmisch|stürmische|stürmischer|stürmisches|unwetter|sturmwolken",
            "tormenta|tempestad|tormentoso|tormentosa",
            "tempête|orageux|orageuse",
            "嵐|雷|台風",
            "风暴|雷电|台风",
        ],
    ),
    row(
        &[
            Particles(ParticleKind::Rain, ParticleAmount::Heavy),
            Sky(SkyCondition::Stormy),
        ],
        [
            "",
            "gewitter",
            "tormenta eléctrica",
            "orage",
            "雷雨|暴風雨",
            "雷雨|暴风雨|暴雨",
        ],
    ),
    row(
        &[Sky(SkyCondition::Foggy)],
        ["fog|foggy|mist|misty|haze|hazy", "", "", "", "", ""],
    ),
];

/// Phrases whose words mean something else.
pub(super) const FIGURES: &[VocabularyRow] = &[
    row(
        &[],
        [
            "depth of field|field of view|field of vision|force field|magnetic field|field trip|left field|track and field|parking space|storage space|open space|negative space|empty space|blank space|green space|space bar|space heater|space between|space invaders",
            "",
            "",
            "",
            "",
            "",
        ],
    ),
    row(
        &[],
        [
            "waves at|waves to|waves goodbye|waves hello|waves back|waves his|waves her|waves their|sound waves|radio waves|brain waves|heat waves",
            "",
            "",
            "",
            "",
            "",
        ],
    ),
    row(
        &[],
        [
            "ice cream|ice creams|ice cube|ice cubes|ice tea|iced tea|snow white|snow globe|snow leopard|winter coat|winter jacket|winter boots",
            "",
            "",
            "",
            "",
            "",
        ],
    ),
    row(
        &[],
        [
            "glass of water|bottle of water|cup of water|water bottle|water glass|water gun|watering can|drinking water|water color|water colour|sea salt|sea food|beach ball|beach towel|bay window|bay leaf|ship it|kitchen island|river song",
            "",
            "",
            "",
            "",
            "",
        ],
    ),
    row(
        &[],
        [
            "mountain bike|mountain bikes|mountain biker|mountain dew|peak hour|christmas tree|family tree|apple tree|palm tree|tree house|pine nuts|pine table|forest green|car park|amusement park|water park|theme park|street food|town hall|building blocks|building a|sand castle|sand paper",
            "",
            "",
            "",
            "",
            "",
        ],
    ),
    row(
        &[],
        [
            "day for night|american night|one day|every day|all day|day after day|good morning|evening dress|evening gown|good night|night stand|moon cake|movie stars|rock stars|five stars|neon green|neon pink|neon yellow|neon orange|neon blue|dark chocolate|dark horse|dark haired|room tone|box office|post office|galaxy phone|samsung galaxy|miss universe|brain storm|storm trooper|storm troopers|cloud computing",
            "",
            "",
            "",
            "",
            "",
        ],
    ),
    row(
        &[],
        [
            "",
            "",
            "",
            "",
            "海老|海賊|海豚|山羊|河馬|月曜|今月|毎朝|森永",
            "海报|海豚|海鸥|海盗|海龟|海鲜|山羊|山楂|河马|雪糕|雪碧|江湖|冰淇淋|树懒|船长",
        ],
    ),
];
