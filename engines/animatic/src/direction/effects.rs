//! Effects: what a prompt says about looks, weather, fades, easing and sounds, and what it asks
//! for that can't be done.

use super::kinds::{Easing, FadeColour, FilmLook, ParticleAmount, ParticleKind, WeatherEffect};
use super::phrases::{PhraseMatch, find, is_heavy, is_light};
use super::tables::{EASING, FADES, LOOKS, SOUNDS, UNSUPPORTED, WEATHER};
use super::words::Clause;
use crate::sound::Ambience;

/// The looks named, each once.
pub(super) fn looks(clauses: &[Clause]) -> Vec<FilmLook> {
    deduplicate(find(clauses, LOOKS).iter().map(|hit| hit.meaning))
}

/// The weather named, each kind once.
pub(super) fn weather(clauses: &[Clause]) -> Vec<WeatherEffect> {
    let mut effects: Vec<WeatherEffect> = Vec::new();
    for hit in find(clauses, WEATHER) {
        let (particles, default_amount) = hit.meaning;
        if effects.iter().all(|w| w.particles != particles) {
            // The prompt's own word wins over what the phrase implies: "heavy drizzle".
            let amount = amount_before(&hit).unwrap_or(default_amount);
            effects.push(WeatherEffect { particles, amount });
        }
    }
    effects
}

fn amount_before<T>(hit: &PhraseMatch<'_, T>) -> Option<ParticleAmount> {
    hit.clause[hit.start.saturating_sub(2)..hit.start]
        .iter()
        .rev()
        .find_map(|word| {
            if is_light(word) {
                Some(ParticleAmount::Light)
            } else if is_heavy(word) {
                Some(ParticleAmount::Heavy)
            } else {
                None
            }
        })
}

/// The fades at the beginning and the end.
pub(super) fn fades(clauses: &[Clause]) -> (Option<FadeColour>, Option<FadeColour>) {
    let mut fades = (None, None);
    for hit in find(clauses, FADES) {
        // Six words reach the colour in "fade in very slowly from white".
        let rest = hit.clause.iter().skip(hit.start).take(6);
        let colour = if rest.clone().any(|word| word == "white") {
            FadeColour::White
        } else {
            FadeColour::Black
        };
        let (first, last) = hit.meaning;
        if first {
            fades.0 = fades.0.or(Some(colour));
        }
        // "Fade in and out"
        if last || rest.clone().any(|word| word == "out") {
            fades.1 = fades.1.or(Some(colour));
        }
    }
    fades
}

pub(super) fn easing(clauses: &[Clause]) -> Option<Easing> {
    find(clauses, EASING).first().map(|hit| hit.meaning)
}

/// The sounds named, each once.
pub(super) fn ambience(clauses: &[Clause]) -> Vec<Ambience> {
    deduplicate(find(clauses, SOUNDS).iter().map(|hit| hit.meaning))
}

/// Phrases for what cannot be done, as in the table.
pub(super) fn unsupported_phrases(clauses: &[Clause]) -> Vec<&'static str> {
    deduplicate(find(clauses, UNSUPPORTED).iter().map(|hit| hit.meaning))
}

fn deduplicate<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut unique = Vec::new();
    for value in values {
        if !unique.contains(&value) {
            unique.push(value);
        }
    }
    unique
}

impl FilmLook {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::BlackAndWhite => "black and white",
            Self::Sepia => "sepia",
            Self::Vintage => "vintage colours",
            Self::Warm => "warm colours",
            Self::Cold => "cold colours",
            Self::HighContrast => "high contrast",
            Self::Vignette => "vignette",
            Self::FilmGrain => "film grain",
            Self::DayForNight => "day for night",
        }
    }
}

impl WeatherEffect {
    pub(super) fn words(self) -> String {
        let amount = match self.amount {
            ParticleAmount::Light => "light ",
            ParticleAmount::Usual => "",
            ParticleAmount::Heavy => "heavy ",
        };
        let particles = match self.particles {
            ParticleKind::Rain => "rain",
            ParticleKind::Snow => "falling snow",
            ParticleKind::Fog => "fog",
            ParticleKind::Dust => "dust",
            ParticleKind::Embers => "embers",
            ParticleKind::Stars => "twinkling stars",
            ParticleKind::Confetti => "confetti",
        };
        format!("{amount}{particles}")
    }
}

impl FadeColour {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Black => "black",
            Self::White => "white",
        }
    }
}

impl Easing {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Smooth => "smooth start and end",
            Self::Linear => "constant speed",
            Self::In => "gathering speed",
            Self::Out => "slowing down",
        }
    }
}
