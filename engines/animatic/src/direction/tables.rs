//! Tables of phrases: looks, weather, fades, easing, sounds, and what cannot be done.
//!
//! A new phrase is a new row; longer phrases must come before shorter ones with the same start.

use super::kinds::{Easing, FilmLook, ParticleAmount, ParticleKind};
use super::phrases::PhraseContext::{self, Always, Near, OnlyNear};
use super::phrases::TablePhrase;
use crate::sound::Ambience;

/// A row of a table.
const fn row<T>(words: &'static str, meaning: T, context: PhraseContext) -> TablePhrase<T> {
    TablePhrase {
        words,
        meaning,
        context,
    }
}

/// Words that make the word next to them a look.
const LOOK_CONTEXT: &[&str] = &[
    "look",
    "looks",
    "tone",
    "tones",
    "toned",
    "colour",
    "colours",
    "color",
    "colors",
    "grade",
    "grading",
    "palette",
    "light",
    "lighting",
    "film",
    "footage",
    "style",
    "filter",
    "effect",
    "hues",
    "temperature",
    "image",
    "picture",
    "photo",
    "atmosphere",
];

pub(super) const LOOKS: &[TablePhrase<FilmLook>] = &[
    row("black and white", FilmLook::BlackAndWhite, Always),
    row("black white", FilmLook::BlackAndWhite, Near(LOOK_CONTEXT)),
    // "B&W" arrives as two words.
    row("b w", FilmLook::BlackAndWhite, Always),
    row("bw", FilmLook::BlackAndWhite, Near(LOOK_CONTEXT)),
    row("monochrome", FilmLook::BlackAndWhite, Always),
    row("greyscale", FilmLook::BlackAndWhite, Always),
    row("grayscale", FilmLook::BlackAndWhite, Always),
    row("noir", FilmLook::BlackAndWhite, Always),
    row("sepia", FilmLook::Sepia, Always),
    row("vintage", FilmLook::Vintage, Near(LOOK_CONTEXT)),
    row("retro", FilmLook::Vintage, Near(LOOK_CONTEXT)),
    row("faded colours", FilmLook::Vintage, Always),
    row("faded colors", FilmLook::Vintage, Always),
    row("old film", FilmLook::Vintage, Always),
    row("warm", FilmLook::Warm, Near(LOOK_CONTEXT)),
    row("warmer", FilmLook::Warm, Near(LOOK_CONTEXT)),
    row("cold", FilmLook::Cold, Near(LOOK_CONTEXT)),
    row("cool", FilmLook::Cold, Near(LOOK_CONTEXT)),
    row("colder", FilmLook::Cold, Near(LOOK_CONTEXT)),
    row("high contrast", FilmLook::HighContrast, Always),
    row("contrasty", FilmLook::HighContrast, Always),
    row("strong contrast", FilmLook::HighContrast, Always),
    row("vignette", FilmLook::Vignette, Always),
    row("vignetting", FilmLook::Vignette, Always),
    row("dark corners", FilmLook::Vignette, Always),
    row("film grain", FilmLook::FilmGrain, Always),
    row("grainy", FilmLook::FilmGrain, Always),
    row("grain", FilmLook::FilmGrain, Near(LOOK_CONTEXT)),
    row("16mm", FilmLook::FilmGrain, Always),
    row("super 8", FilmLook::FilmGrain, Always),
    row("day for night", FilmLook::DayForNight, Always),
    row("american night", FilmLook::DayForNight, Always),
];

const DUST_CONTEXT: &[&str] = &[
    "air",
    "motes",
    "particles",
    "floating",
    "drifting",
    "light",
    "swirling",
    "flying",
    "rising",
];
const SNOW_CONTEXT: &[&str] = &[
    "falling", "falls", "fall", "drifting", "flakes", "swirling", "storm",
];
const STARS_CONTEXT: &[&str] = &[
    "twinkling",
    "shining",
    "sky",
    "falling",
    "glittering",
    "bright",
    "above",
];

pub(super) const WEATHER: &[TablePhrase<(ParticleKind, ParticleAmount)>] = &[
    row("rain", (ParticleKind::Rain, ParticleAmount::Usual), Always),
    row("rainy", (ParticleKind::Rain, ParticleAmount::Usual), Always),
    row(
        "raining",
        (ParticleKind::Rain, ParticleAmount::Usual),
        Always,
    ),
    row(
        "raindrops",
        (ParticleKind::Rain, ParticleAmount::Usual),
        Always,
    ),
    row(
        "shower",
        (ParticleKind::Rain, ParticleAmount::Usual),
        Near(&["rain", "summer"]),
    ),
    row(
        "drizzle",
        (ParticleKind::Rain, ParticleAmount::Light),
        Always,
    ),
    row(
        "drizzling",
        (ParticleKind::Rain, ParticleAmount::Light),
        Always,
    ),
    row(
        "downpour",
        (ParticleKind::Rain, ParticleAmount::Heavy),
        Always,
    ),
    row(
        "rainstorm",
        (ParticleKind::Rain, ParticleAmount::Heavy),
        Always,
    ),
    row(
        "thunderstorm",
        (ParticleKind::Rain, ParticleAmount::Heavy),
        Always,
    ),
    row(
        "snow",
        (ParticleKind::Snow, ParticleAmount::Usual),
        Near(SNOW_CONTEXT),
    ),
    row(
        "snowing",
        (ParticleKind::Snow, ParticleAmount::Usual),
        Always,
    ),
    row(
        "snowfall",
        (ParticleKind::Snow, ParticleAmount::Usual),
        Always,
    ),
    row(
        "snowflakes",
        (ParticleKind::Snow, ParticleAmount::Usual),
        Always,
    ),
    row(
        "blizzard",
        (ParticleKind::Snow, ParticleAmount::Heavy),
        Always,
    ),
    row(
        "snowstorm",
        (ParticleKind::Snow, ParticleAmount::Heavy),
        Always,
    ),
    row("fog", (ParticleKind::Fog, ParticleAmount::Usual), Always),
    row("foggy", (ParticleKind::Fog, ParticleAmount::Usual), Always),
    row("mist", (ParticleKind::Fog, ParticleAmount::Light), Always),
    row("misty", (ParticleKind::Fog, ParticleAmount::Light), Always),
    row("haze", (ParticleKind::Fog, ParticleAmount::Light), Always),
    row(
        "dust in the air",
        (ParticleKind::Dust, ParticleAmount::Usual),
        Always,
    ),
    row(
        "dust",
        (ParticleKind::Dust, ParticleAmount::Usual),
        Near(DUST_CONTEXT),
    ),
    row(
        "dusty air",
        (ParticleKind::Dust, ParticleAmount::Usual),
        Always,
    ),
    row(
        "sandstorm",
        (ParticleKind::Dust, ParticleAmount::Heavy),
        Always,
    ),
    row(
        "embers",
        (ParticleKind::Embers, ParticleAmount::Usual),
        Always,
    ),
    row(
        "sparks",
        (ParticleKind::Embers, ParticleAmount::Usual),
        Always,
    ),
    row(
        "fireflies",
        (ParticleKind::Embers, ParticleAmount::Light),
        Always,
    ),
    row(
        "stars",
        (ParticleKind::Stars, ParticleAmount::Usual),
        Near(STARS_CONTEXT),
    ),
    row(
        "starfield",
        (ParticleKind::Stars, ParticleAmount::Heavy),
        Always,
    ),
    row(
        "confetti",
        (ParticleKind::Confetti, ParticleAmount::Usual),
        Always,
    ),
];

/// Whether the film fades in, and whether it fades out.
pub(super) const FADES: &[TablePhrase<(bool, bool)>] = &[
    row("fade in", (true, false), Always),
    row("fades in", (true, false), Always),
    row("fading in", (true, false), Always),
    row("fade from", (true, false), Always),
    row("fades from", (true, false), Always),
    row("fade up", (true, false), Always),
    row("fade out", (false, true), Always),
    row("fades out", (false, true), Always),
    row("fading out", (false, true), Always),
    row("fade to", (false, true), Always),
    row("fades to", (false, true), Always),
    row("fading to", (false, true), Always),
    row("fade away", (false, true), Always),
];

const EASING_CONTEXT: &[&str] = &[
    "move", "motion", "movement", "speed", "pace", "camera", "easing",
];

pub(super) const EASING: &[TablePhrase<Easing>] = &[
    row("ease in out", Easing::Smooth, Always),
    row("ease in and out", Easing::Smooth, Always),
    row("ease in", Easing::In, Always),
    row("ease out", Easing::Out, Always),
    row("constant speed", Easing::Linear, Always),
    row("steady speed", Easing::Linear, Always),
    row("constant pace", Easing::Linear, Always),
    row("linear", Easing::Linear, Near(EASING_CONTEXT)),
    row("accelerating", Easing::In, Near(EASING_CONTEXT)),
    row("speeding up", Easing::In, Always),
    row("gathering speed", Easing::In, Always),
    row("decelerating", Easing::Out, Near(EASING_CONTEXT)),
    row("slowing down", Easing::Out, Always),
    row("coming to rest", Easing::Out, Always),
];

/// Words that make the word next to them a sound.
const SOUND_CONTEXT: &[&str] = &[
    "sound",
    "sounds",
    "audio",
    "ambience",
    "ambient",
    "noise",
    "noises",
    "hear",
    "hearing",
    "heard",
    "soundscape",
    "soundtrack",
    "track",
    "ambiance",
];
const WIND_CONTEXT: &[&str] = &[
    "howling",
    "whistling",
    "sound",
    "sounds",
    "noise",
    "ambience",
    "audio",
    "hear",
    "ambient",
    "heard",
    "soundscape",
    "soundtrack",
];

pub(super) const SOUNDS: &[TablePhrase<Ambience>] = &[
    row("room tone", Ambience::RoomTone, Always),
    row("birdsong", Ambience::Birds, Always),
    row("chirping birds", Ambience::Birds, Always),
    row("birds chirping", Ambience::Birds, Always),
    row("birds singing", Ambience::Birds, Always),
    row("chirping crickets", Ambience::Crickets, Always),
    row("crickets chirping", Ambience::Crickets, Always),
    row("crackling fire", Ambience::Fire, Always),
    row("fire crackling", Ambience::Fire, Always),
    row("sound of the sea", Ambience::Sea, Always),
    row("sound of the ocean", Ambience::Sea, Always),
    row("crashing waves", Ambience::Sea, Always),
    row("babbling brook", Ambience::Stream, Always),
    row("rumbling thunder", Ambience::Thunder, Always),
    row("distant thunder", Ambience::Thunder, Always),
    row("traffic noise", Ambience::City, Always),
    row("wind", Ambience::Wind, OnlyNear(WIND_CONTEXT)),
    row("rain", Ambience::Rain, OnlyNear(SOUND_CONTEXT)),
    row("sea", Ambience::Sea, OnlyNear(SOUND_CONTEXT)),
    row("ocean", Ambience::Sea, OnlyNear(SOUND_CONTEXT)),
    row("waves", Ambience::Sea, OnlyNear(SOUND_CONTEXT)),
    row("surf", Ambience::Sea, OnlyNear(SOUND_CONTEXT)),
    row("room", Ambience::RoomTone, OnlyNear(SOUND_CONTEXT)),
    row("birds", Ambience::Birds, OnlyNear(SOUND_CONTEXT)),
    row("forest", Ambience::Birds, OnlyNear(SOUND_CONTEXT)),
    row("crickets", Ambience::Crickets, OnlyNear(SOUND_CONTEXT)),
    row("night", Ambience::Crickets, OnlyNear(SOUND_CONTEXT)),
    row("fire", Ambience::Fire, OnlyNear(SOUND_CONTEXT)),
    row("city", Ambience::City, OnlyNear(SOUND_CONTEXT)),
    row("street", Ambience::City, OnlyNear(SOUND_CONTEXT)),
    row("traffic", Ambience::City, OnlyNear(SOUND_CONTEXT)),
    row("stream", Ambience::Stream, OnlyNear(SOUND_CONTEXT)),
    row("river", Ambience::Stream, OnlyNear(SOUND_CONTEXT)),
    row("thunder", Ambience::Thunder, OnlyNear(SOUND_CONTEXT)),
];

// Phrases are written as the tokeniser leaves them, without hyphens: "time-lapse" is two words.
pub(super) const UNSUPPORTED: &[TablePhrase<&str>] = &[
    row("slow motion", "slow motion", Always),
    row("slowmo", "slow motion", Always),
    row("time lapse", "time-lapse", Always),
    row("timelapse", "time-lapse", Always),
    row("hyperlapse", "hyperlapse", Always),
    row("rack focus", "rack focus", Always),
    row("pull focus", "focus pull", Always),
    row("focus pull", "focus pull", Always),
    row("shallow depth of field", "shallow depth of field", Always),
    row("bokeh", "bokeh", Always),
    row("lens flare", "lens flare", Always),
    row("lens flares", "lens flare", Always),
    row("dolly zoom", "dolly zoom", Always),
    row("vertigo effect", "dolly zoom", Always),
    row("cross dissolve", "dissolve", Always),
    row("crossfade", "dissolve", Always),
    row("dissolve to", "dissolve", Always),
    row("cut to", "cut", Always),
    row("jump cut", "cut", Always),
    row("wipe to", "wipe", Always),
    row("morph into", "morph", Always),
    row("morphs into", "morph", Always),
    row("split screen", "split screen", Always),
    row("voice over", "voice-over", Always),
    row("voiceover", "voice-over", Always),
    row("dialogue", "dialogue", Always),
    row("background music", "music", Always),
    row("music", "music", OnlyNear(SOUND_CONTEXT)),
    row("lightning", "lightning", Always),
    row("fireworks", "fireworks", Always),
    row("hail", "hail", Always),
    row("falling leaves", "falling leaves", Always),
    row("glitch effect", "glitch", Always),
    row("fisheye", "fisheye", Always),
    row("seamless loop", "seamless loop", Always),
    row("4k", "4K", Always),
    row("8k", "8K", Always),
];
