//! Small words: those without a meaning that a picture could show.
//!
//! They are left out where the words are listed that nothing took. The lists need not be complete:
//! a word that is missing here is listed, which is only untidy.

/// Whether a word, in lower case, is an article, a preposition, a pronoun, a form of a common verb
/// or the like, in English, German, Spanish or French.
pub(super) fn is_small_word(word: &str) -> bool {
    SMALL_WORDS
        .iter()
        .any(|list| list.split(' ').any(|small| small == word))
}

const SMALL_WORDS: &[&str] = &[
    "a an the this that these those some any each every all both of in on at by to for from into \
     onto over under above below behind beside between near next with without within through across \
     along around against towards toward up down off out and or but while as than then so very too \
     just only also where when which who whose what how there here is are was were be been being has \
     have had do does did can could will would should may might must it its he him his she her they \
     them their we our us you your i me my im one ones",
    "shows show showing make makes made create generate please want like looks look looking seen see \
     sees get gets goes go comes come takes take sits sit stands stand stays lies lie plays play runs \
     run walks walk sleeps sleep eats eat drinks drink flies fly swims swim jumps jump dances dance \
     smiles smile holds hold wears wear drives drive rides ride video film movie clip footage scene \
     picture image photo animation full big small large little few many much more most other",
    "der die das den dem des ein eine einem einen einer eines und oder aber mit ohne auf in im ins an \
     am aus von vom zu zum zur bei beim nach vor hinter über unter neben zwischen durch für gegen um \
     bis als wie ist sind war waren wird werden hat haben es er sie ihr ihre ihrem ihren sein seine \
     seinem wir ich du man sich auch nur noch sehr viel viele mehr ganz dann wo wenn während steht \
     stehen sitzt sitzen liegt liegen geht gehen läuft laufen fliegt fliegen spielt spielen fährt \
     fahren schläft tanzt kamera bild",
    "el la los las un una unos unas lo al del de y e o u pero con sin en por para desde hasta hacia \
     entre sobre bajo ante tras que qué como cómo cuando donde es son está están era ser estar hay ha \
     han su sus mi mis tu tus se le les él ella ellos muy más menos también mientras toca tocando \
     juega corre camina vuela duerme baila sentado sentada cámara imagen",
    "le la les l un une des du de d au aux à et ou mais avec sans dans en sur sous par pour vers chez \
     entre devant derrière près depuis jusqu qui que qu quoi dont où est sont était être a ont il elle \
     ils elles on nous vous je j tu ce c cet cette ces son sa ses mon ma mes leur leurs se s ne n pas \
     plus très aussi comme quand pendant joue court marche vole dort danse assis assise caméra",
];

/// Whether an English word is the form of a verb: "a cat *playing* a piano".
pub(super) fn is_participle(word: &str) -> bool {
    let is_long = word.chars().count() >= 5;
    is_long && word.ends_with("ing") && !NOUNS_IN_ING.contains(&word)
}

const NOUNS_IN_ING: &[&str] = &[
    "being",
    "building",
    "ceiling",
    "clothing",
    "darling",
    "drawing",
    "duckling",
    "dumpling",
    "earring",
    "evening",
    "lightning",
    "morning",
    "offspring",
    "painting",
    "pudding",
    "sapling",
    "sibling",
    "spring",
    "sting",
    "string",
    "swing",
    "viking",
    "wedding",
    "wing",
    "king",
    "ring",
];

/// Whether a Chinese character is grammar: a measure word, a preposition, a conjunction.
pub(super) fn is_small_character(c: char) -> bool {
    "一两几个只条座片这那的了着在和与及是有被把从到向对也都很正弹".contains(c)
}

/// Whether a word of Chinese or Japanese says only where something is, or names the camera.
pub(super) fn is_small_cjk_word(word: &str) -> bool {
    matches!(
        word,
        "里" | "中"
            | "上"
            | "下"
            | "内"
            | "外"
            | "前"
            | "后"
            | "後"
            | "间"
            | "镜头"
            | "画面"
            | "カメラ"
    )
}

/// Whether a Japanese character is a particle that follows a noun.
pub(super) fn is_particle(c: char) -> bool {
    "はがをにのとでへもや、".contains(c)
}
