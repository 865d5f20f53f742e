//! The vocabulary of weather, looks and sounds in languages other than English.

use super::rows::Meaning::{Hour, Look, Particles, Place, Sky, Sound};
use super::rows::{VocabularyRow, row};
use crate::direction::kinds::{FilmLook, ParticleAmount, ParticleKind};
use crate::scene::{ScenePlace, SkyCondition, TimeOfDay};
use crate::sound::Ambience;

/// What falls or floats in front of the scene.
pub(super) const WEATHER: &[VocabularyRow] = &[
    row(
        &[
            Particles(ParticleKind::Rain, ParticleAmount::Usual),
            Sky(SkyCondition::Cloudy),
        ],
        [
            "",
            "regen|regnet|regnerisch|regnerische|regnerischer|verregnet|verregnete",
            "lluvia|llueve|lloviendo|lluvioso|lluviosa",
            "pluie|pleut|pluvieux|pluvieuse",
            "雨",
            "雨|下雨",
        ],
    ),
    row(
        &[
            Particles(ParticleKind::Rain, ParticleAmount::Light),
            Sky(SkyCondition::Cloudy),
        ],
        [
            "",
            "nieselregen|leichter regen",
            "llovizna|lluvia ligera",
            "bruine|pluie fine",
            "小雨|霧雨",
            "小雨|细雨|毛毛雨",
        ],
    ),
    row(
        &[
            Particles(ParticleKind::Rain, ParticleAmount::Heavy),
            Sky(SkyCondition::Cloudy),
        ],
        [
            "",
            "starkregen|starker regen|platzregen|wolkenbruch",
            "lluvia fuerte|lluvia intensa|aguacero",
            "forte pluie|averse|pluie battante",
            "大雨|豪雨|土砂降り",
            "大雨|倾盆大雨",
        ],
    ),
    row(
        &[
            Particles(ParticleKind::Snow, ParticleAmount::Usual),
            Place(ScenePlace::Snow),
        ],
        [
            "",
            "schneefall|schneit|schneeflocken|fallender schnee",
            "nevando|nieva|copos de nieve|cae nieve|cae la nieve",
            "il neige|chute de neige|chutes de neige|flocons|neige qui tombe",
            "雪が降る|雪が降って|降る雪|舞う雪|粉雪",
            "下雪|飘雪|雪花|飞雪",
        ],
    ),
    row(
        &[
            Particles(ParticleKind::Snow, ParticleAmount::Heavy),
            Place(ScenePlace::Snow),
        ],
        [
            "",
            "schneesturm|starker schneefall",
            "tormenta de nieve|ventisca",
            "tempête de neige",
            "吹雪",
            "大雪|暴雪|暴风雪",
        ],
    ),
    row(
        &[
            Particles(ParticleKind::Fog, ParticleAmount::Usual),
            Sky(SkyCondition::Foggy),
        ],
        [
            "",
            "nebel|neblig|nebelig|nebliger|neblige|nebligen",
            "niebla",
            "brouillard",
            "霧|濃霧",
            "雾|浓雾|雾气",
        ],
    ),
    row(
        &[
            Particles(ParticleKind::Fog, ParticleAmount::Light),
            Sky(SkyCondition::Foggy),
        ],
        [
            "",
            "dunst|dunstig",
            "neblina|bruma",
            "brume|brumeux|brumeuse",
            "靄|もや",
            "薄雾",
        ],
    ),
    row(
        &[Particles(ParticleKind::Dust, ParticleAmount::Usual)],
        [
            "",
            "staub in der luft",
            "polvo en el aire",
            "poussière dans l'air",
            "舞う塵",
            "尘埃",
        ],
    ),
    row(
        &[Particles(ParticleKind::Dust, ParticleAmount::Heavy)],
        [
            "",
            "sandsturm",
            "tormenta de arena",
            "tempête de sable",
            "砂嵐",
            "沙尘暴",
        ],
    ),
    row(
        &[Particles(ParticleKind::Embers, ParticleAmount::Usual)],
        [
            "",
            "funken",
            "chispas|brasas",
            "étincelles|braises",
            "火の粉|火花",
            "火花",
        ],
    ),
    row(
        &[Particles(ParticleKind::Embers, ParticleAmount::Light)],
        [
            "",
            "glühwürmchen",
            "luciérnagas",
            "lucioles",
            "蛍",
            "萤火虫",
        ],
    ),
    row(
        &[
            Particles(ParticleKind::Stars, ParticleAmount::Usual),
            Hour(TimeOfDay::Night),
        ],
        [
            "",
            "funkelnde sterne",
            "estrellas brillantes",
            "étoiles scintillantes",
            "瞬く星|輝く星",
            "繁星|闪烁的星星",
        ],
    ),
    row(
        &[Particles(ParticleKind::Confetti, ParticleAmount::Usual)],
        ["", "konfetti", "confeti", "confettis", "紙吹雪", "彩纸"],
    ),
];

/// Looks.
pub(super) const LOOKS: &[VocabularyRow] = &[
    row(
        &[Look(FilmLook::BlackAndWhite)],
        [
            "",
            "schwarz-weiß|schwarzweiß",
            "blanco y negro",
            "noir et blanc",
            "白黒|モノクロ",
            "黑白",
        ],
    ),
    row(
        &[Look(FilmLook::Sepia)],
        [
            "",
            "sepiaton",
            "tono sepia",
            "ton sépia",
            "セピア",
            "棕褐色调",
        ],
    ),
    row(
        &[Look(FilmLook::Vintage)],
        [
            "",
            "alter film",
            "película antigua",
            "vieux film",
            "レトロ",
            "复古",
        ],
    ),
    row(
        &[Look(FilmLook::Warm)],
        [
            "",
            "warmes licht|warme farben",
            "luz cálida|colores cálidos|tonos cálidos",
            "lumière chaude|couleurs chaudes",
            "暖かい光|暖色",
            "暖色|暖色调",
        ],
    ),
    row(
        &[Look(FilmLook::Cold)],
        [
            "",
            "kaltes licht|kalte farben",
            "luz fría|colores fríos|tonos fríos",
            "lumière froide|couleurs froides",
            "冷たい光|寒色",
            "冷色|冷色调",
        ],
    ),
    row(
        &[Look(FilmLook::HighContrast)],
        [
            "",
            "hoher kontrast|starker kontrast",
            "alto contraste",
            "fort contraste",
            "高コントラスト",
            "高对比度",
        ],
    ),
    row(
        &[Look(FilmLook::Vignette)],
        [
            "",
            "vignettierung",
            "viñeta|viñeteado",
            "vignettage",
            "ビネット",
            "暗角",
        ],
    ),
    row(
        &[Look(FilmLook::FilmGrain)],
        [
            "",
            "filmkorn|körnig",
            "grano de película",
            "grain de film|grain argentique",
            "フィルムグレイン",
            "胶片颗粒",
        ],
    ),
    row(
        &[Look(FilmLook::DayForNight)],
        [
            "",
            "amerikanische nacht",
            "noche americana",
            "nuit américaine",
            "",
            "",
        ],
    ),
];

/// Sounds.
pub(super) const SOUNDS: &[VocabularyRow] = &[
    row(
        &[Sound(Ambience::Wind)],
        [
            "",
            "windgeräusch",
            "sonido del viento",
            "bruit du vent",
            "風の音",
            "风声",
        ],
    ),
    row(
        &[Sound(Ambience::Rain)],
        [
            "",
            "regengeräusch|regengeräusche",
            "sonido de lluvia|sonido de la lluvia",
            "bruit de pluie|bruit de la pluie",
            "雨の音|雨音",
            "雨声",
        ],
    ),
    row(
        &[Sound(Ambience::Thunder)],
        [
            "",
            "donnergrollen",
            "sonido de truenos",
            "bruit du tonnerre",
            "雷の音",
            "雷声|雷鸣",
        ],
    ),
    row(
        &[Sound(Ambience::Sea)],
        [
            "",
            "meeresrauschen|wellenrauschen",
            "sonido del mar|sonido de las olas",
            "bruit de la mer|bruit des vagues",
            "波の音",
            "海浪声",
        ],
    ),
    row(
        &[Sound(Ambience::Stream)],
        [
            "",
            "bachrauschen",
            "sonido del río",
            "bruit de la rivière",
            "川の音|せせらぎ",
            "流水声|溪流声",
        ],
    ),
    row(
        &[Sound(Ambience::Birds)],
        [
            "",
            "vogelgezwitscher|vogelgesang",
            "canto de pájaros|canto de los pájaros",
            "chant d'oiseaux|chant des oiseaux",
            "鳥のさえずり|鳥の声",
            "鸟鸣|鸟叫声",
        ],
    ),
    row(
        &[Sound(Ambience::Crickets)],
        [
            "",
            "grillenzirpen",
            "canto de grillos|canto de los grillos",
            "chant des grillons",
            "虫の声|虫の音",
            "虫鸣|蟋蟀声",
        ],
    ),
    row(
        &[Sound(Ambience::Fire)],
        [
            "",
            "knisterndes feuer",
            "fuego crepitante",
            "crépitement du feu",
            "焚き火の音",
            "篝火声",
        ],
    ),
    row(
        &[Sound(Ambience::City)],
        [
            "",
            "verkehrslärm|straßenlärm",
            "ruido de tráfico|ruido de la ciudad",
            "bruit de la ville|bruit de la circulation",
            "街の音",
            "车流声",
        ],
    ),
];
