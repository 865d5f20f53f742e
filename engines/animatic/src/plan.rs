//! The plan of a film: everything that decides what it shows, and that plan in words.
//!
//! A shot is drawn from its plan and told from the same values, so what is told is what is shown.

use std::collections::HashSet;

use crate::direction::{CameraMove, Direction, FrameShape, MoveKind, PromptWord, WordTaker};
use crate::limits::{MAX_SECONDS, MAX_TITLES, MIN_SECONDS};
use crate::options::RenderOptions;
use crate::scene::Scene;
use crate::title::covered_by_font;

/// How a prompt was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptReading {
    /// What is shown: `["slow push in", "then pan left", "6 seconds", "vertical 9:16"]`.
    pub direction: Vec<String>,
    /// The words of the prompt that have no effect, each once.
    pub not_understood: Vec<String>,
}

impl PromptReading {
    /// How a prompt will be understood, before anything is drawn.
    pub fn of(prompt: &str, options: &RenderOptions, has_picture: bool) -> Self {
        ShotPlan::new(prompt, options, has_picture).reading()
    }
}

/// Everything that decides what a film shows.
pub(crate) struct ShotPlan {
    pub(crate) direction: Direction,
    options: RenderOptions,
    /// What is drawn if there is no picture.
    pub(crate) scene: Scene,
    has_picture: bool,
    titles: Vec<PlannedTitle>,
}

/// A title as the prompt has it, and as it is shown.
struct PlannedTitle {
    asked: String,
    shown: String,
    /// Characters that the font lacks.
    missing: String,
}

impl ShotPlan {
    pub(crate) fn new(prompt: &str, options: &RenderOptions, has_picture: bool) -> Self {
        let direction = Direction::parse(prompt);
        let titles = direction.titles.iter().map(|asked| {
            let (shown, missing) = covered_by_font(asked);
            PlannedTitle {
                asked: asked.clone(),
                shown,
                missing,
            }
        });
        Self {
            titles: titles.collect(),
            options: *options,
            scene: Scene::new(&direction.scenery, options.seed),
            has_picture,
            direction,
        }
    }

    /// The titles that are shown; an empty one takes no room.
    pub(crate) fn titles(&self) -> Vec<String> {
        let shown = self.titles.iter().take(MAX_TITLES);
        shown.map(|title| title.shown.clone()).collect()
    }

    /// The plan in words.
    pub(crate) fn reading(&self) -> PromptReading {
        let not_understood = self.not_understood();
        let mut direction = Vec::new();
        if !not_understood.is_empty() && !self.takes_anything() {
            direction.push("nothing in the prompt was understood".to_owned());
        }
        direction.extend(self.moves());
        direction.extend(self.length());
        direction.extend(self.shape());
        direction.extend(self.effects());
        direction.extend(self.title_lines());
        let sounds = self.direction.ambience.iter();
        direction.extend(sounds.map(|sound| format!("sound of {}", sound.name())));
        let unsupported = self.direction.unsupported.iter();
        direction.extend(unsupported.map(|feature| format!("not done: {feature}")));
        if !self.has_picture {
            direction.push(self.scene.describe());
        }
        PromptReading {
            direction,
            not_understood,
        }
    }

    fn moves(&self) -> Vec<String> {
        let legs = self.direction.legs.iter().enumerate();
        let legs = legs.map(|(i, leg)| {
            let moves: Vec<String> = leg.moves.iter().copied().map(CameraMove::words).collect();
            let prefix = if i == 0 { "" } else { "then " };
            let note = if self.direction.assumed {
                " (no camera move named)"
            } else {
                ""
            };
            format!("{prefix}{}{note}", moves.join(" with "))
        });
        legs.collect()
    }

    /// The length, if the prompt says one.
    fn length(&self) -> Option<String> {
        let asked = self.direction.seconds?;
        let length = self.options.seconds;
        let unit = if (length - 1.0).abs() < 1e-9 {
            "second"
        } else {
            "seconds"
        };
        let note = if (length - asked.clamp(MIN_SECONDS, MAX_SECONDS)).abs() > 5e-4 {
            " (the order's length, instead of the prompt's)"
        } else if asked > MAX_SECONDS {
            ", the longest offered"
        } else if asked < MIN_SECONDS {
            ", the shortest offered"
        } else {
            ""
        };
        Some(format!("{length} {unit}{note}"))
    }

    /// The shape of the frame, if the prompt says one.
    fn shape(&self) -> Option<String> {
        let asked = self.direction.shape?;
        let shape = FrameShape::nearest((self.options.width, self.options.height));
        let note = if shape == asked {
            ""
        } else {
            " (the order's size, instead of the prompt's shape)"
        };
        Some(format!("{}{note}", shape.words()))
    }

    fn effects(&self) -> Vec<String> {
        let direction = &self.direction;
        let mut moves = direction.legs.iter().flat_map(|leg| &leg.moves);
        // A camera that stands still, or only shakes, has no start and no end to ease.
        let is_eased = moves.any(|m| !matches!(m.kind, MoveKind::Static | MoveKind::Handheld));
        let easing = direction.easing.filter(|_| is_eased);
        let mut words: Vec<String> = easing
            .map(|easing| easing.words().to_owned())
            .into_iter()
            .collect();
        words.extend(direction.looks.iter().map(|look| look.words().to_owned()));
        words.extend(direction.weather.iter().map(|weather| weather.words()));
        let fade_in = direction.fade_in.iter();
        words.extend(fade_in.map(|from| format!("fade in from {}", from.words())));
        let fade_out = direction.fade_out.iter();
        words.extend(fade_out.map(|to| format!("fade out to {}", to.words())));
        words
    }

    fn title_lines(&self) -> Vec<String> {
        let lines = self.titles.iter().enumerate().map(|(i, title)| {
            let PlannedTitle {
                asked,
                shown,
                missing,
            } = title;
            let line = if i == 0 { "title" } else { "subtitle" };
            if i >= MAX_TITLES {
                format!("not shown, too many titles: \u{201c}{asked}\u{201d}")
            } else if missing.is_empty() {
                format!("{line} \u{201c}{shown}\u{201d}")
            } else if shown.is_empty() {
                format!("not shown, the title font has no {missing}")
            } else {
                format!("{line} \u{201c}{shown}\u{201d} (the title font has no {missing})")
            }
        });
        lines.collect()
    }

    fn not_understood(&self) -> Vec<String> {
        let taken = self.direction.words.iter().filter(|word| self.takes(word));
        let mut seen: HashSet<&str> = taken.map(|word| word.spelling.as_str()).collect();
        let words = self
            .direction
            .words
            .iter()
            .map(|word| word.spelling.as_str());
        let new = words.filter(|word| seen.insert(*word));
        new.take(MAX_NOT_UNDERSTOOD)
            .map(|word| word.chars().take(MAX_WORD_CHARS).collect())
            .collect()
    }

    fn takes_anything(&self) -> bool {
        !self.titles.is_empty() || self.direction.words.iter().any(|word| self.takes(word))
    }

    fn takes(&self, word: &PromptWord) -> bool {
        match &word.taker {
            WordTaker::Nothing => false,
            WordTaker::Direction => true,
            WordTaker::Scene(elements) => {
                !self.has_picture && elements.iter().any(|element| self.scene.shows(*element))
            }
        }
    }
}

/// Limits of what is told of a very long prompt.
const MAX_NOT_UNDERSTOOD: usize = 50;
const MAX_WORD_CHARS: usize = 60;

#[cfg(test)]
mod tests;
