//! Titles: words on the picture, set once for a shot and faded in and out.
//!
//! The embedded font is Inter Display (its licence is next to it), which covers Latin, Greek and
//! Cyrillic. Words are shaped, so pairs are kerned; lines are broken so that they come out about
//! equally long, within the part of the frame that every screen shows; a soft shadow keeps them
//! readable on any picture. Characters that the font lacks are left out before.

mod mask;
mod typesetter;

use swash::FontRef;

use crate::options::RenderOptions;
use crate::scene::noise::smoothstep;
use mask::{OpacityMask, to_f32};
use typesetter::{LEADING, TitleLine, TitleTypesetter};

/// A text without the characters that the font lacks, and those characters, each once.
pub(crate) fn covered_by_font(text: &str) -> (String, String) {
    let (mut kept, mut missing) = (String::new(), String::new());
    let font = FontRef::from_index(FONT, 0);
    let has = |c: char| font.is_some_and(|font| font.charmap().map(c) != 0);
    for c in text.chars() {
        if c == ' ' || has(c) {
            kept.push(c);
        } else if !missing.contains(c) {
            missing.push(c);
        }
    }
    let kept: Vec<&str> = kept.split_whitespace().collect();
    (kept.join(" "), missing)
}

/// Titles set for a shot.
pub(crate) struct TitleOverlay {
    /// Opacity of letters and of their shadow, for the rows from `top`; empty without titles.
    letters: Vec<u8>,
    shadow: Vec<u8>,
    top: usize,
    width: usize,
    /// Frames of the shot, and frames per second.
    frames: f32,
    fps: f32,
}

impl TitleOverlay {
    /// Sets titles whose characters the font has.
    pub(crate) fn typeset(words: &[String], options: &RenderOptions) -> Self {
        let mut titles = Self {
            letters: Vec::new(),
            shadow: Vec::new(),
            top: 0,
            width: options.width as usize,
            frames: to_f32(options.frames() as usize),
            fps: to_f32(options.fps as usize),
        };
        let Some(font) = FontRef::from_index(FONT, 0) else {
            return titles;
        };
        let mut setter = TitleTypesetter::new(font);
        let lines = setter.break_lines(words, (options.width, options.height));
        if !lines.is_empty() {
            titles.print(&mut setter, &lines, options.height as usize);
        }
        titles
    }

    /// Whether a frame shows the titles exactly as the previous one does.
    pub(crate) fn is_steady(&self, frame: usize) -> bool {
        self.letters.is_empty()
            || (frame > 0 && bits(self.opacity_at(frame)) == bits(self.opacity_at(frame - 1)))
    }

    /// Lays the titles over a frame.
    pub(crate) fn draw(&self, frame: usize, rgba: &mut [u8]) {
        let opacity = self.opacity_at(frame);
        if self.letters.is_empty() || opacity <= 0.0 {
            return;
        }
        let start = self.top * self.width * 4;
        let (pixels, _) = rgba
            .get_mut(start..)
            .unwrap_or_default()
            .as_chunks_mut::<4>();
        let masks = self.letters.iter().zip(&self.shadow);
        for (pixel, (letter, shadow)) in pixels.iter_mut().zip(masks) {
            if *shadow == 0 && *letter == 0 {
                continue;
            }
            let dark = 1.0 - f32::from(*shadow) * (opacity * SHADOW / 255.0);
            let light = f32::from(*letter) * (opacity / 255.0);
            for channel in pixel.iter_mut().take(3) {
                let shadowed = f32::from(*channel) * dark;
                *channel = byte(shadowed + (250.0 - shadowed) * light);
            }
        }
    }

    /// The titles' opacity at a frame: they fade in shortly after the beginning and out
    /// shortly before the end.
    fn opacity_at(&self, frame: usize) -> f32 {
        let (seconds, length) = (to_f32(frame) / self.fps, self.frames / self.fps);
        let delay = (length * 0.06).min(0.4);
        let fade = (length * 0.15).min(0.8);
        let fade_in = smoothstep(delay, delay + fade, seconds);
        fade_in * smoothstep(delay, delay + fade, length - seconds)
    }

    fn print(&mut self, setter: &mut TitleTypesetter<'_>, lines: &[TitleLine], height: usize) {
        let text_height: f32 = lines
            .iter()
            .map(|line| line.gap + line.size * LEADING)
            .sum();
        let margin = lines.iter().map(|line| line.size).fold(0.0, f32::max);
        let text_top = (to_f32(height) - text_height) / 2.0;
        self.top = to_usize((text_top - margin).max(0.0));
        let bottom = to_usize(text_top + text_height + margin).min(height);
        let mut mask = OpacityMask {
            width: self.width,
            height: bottom - self.top,
            bytes: vec![0; self.width * (bottom - self.top)],
        };
        let mut y = text_top - to_f32(self.top);
        for line in lines {
            y += line.gap;
            // The baseline is placed so that capitals are vertically centred in the line.
            let baseline = y + line.size * (LEADING + CAPITALS) / 2.0;
            let x = (to_f32(self.width) - setter.width(line)) / 2.0;
            setter.print(line, (x, baseline), &mut mask);
            y += line.size * LEADING;
        }
        self.shadow = mask.blurred(to_usize(margin * 0.11).max(2));
        self.letters = mask.bytes;
    }
}

fn bits(value: f32) -> u32 {
    value.to_bits()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to a byte"
)]
fn byte(value: f32) -> u8 {
    (value + 0.5).clamp(0.0, 255.0) as u8
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a position in a frame"
)]
fn to_usize(value: f32) -> usize {
    value as usize
}

/// The font of the titles; the gateway also draws avatars with it. SIL Open Font License 1.1; see
/// `fonts/OFL.txt`.
pub const FONT: &[u8] = include_bytes!("../../fonts/InterDisplay-SemiBold.otf");

/// Height of a capital letter, as a share of the font size.
const CAPITALS: f32 = 0.727;

/// How dark the shadow is.
const SHADOW: f32 = 0.62;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::direction::Direction;
    use crate::options::RequestedOptions;

    fn titles(words: &[&str], size: (u32, u32)) -> TitleOverlay {
        let requested = RequestedOptions {
            size: Some(size),
            ..RequestedOptions::default()
        };
        let options = RenderOptions::resolve(&requested, &Direction::parse("")).unwrap();
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        TitleOverlay::typeset(&words, &options)
    }

    /// The columns and rows of the frame that letters touch.
    fn extent(titles: &TitleOverlay) -> ((usize, usize), (usize, usize)) {
        let inked = || titles.letters.iter().enumerate().filter(|(_, b)| **b > 0);
        let columns = inked().map(|(i, _)| i % titles.width);
        let rows = inked().map(|(i, _)| i / titles.width + titles.top);
        (
            (columns.clone().min().unwrap(), columns.max().unwrap()),
            (rows.clone().min().unwrap(), rows.max().unwrap()),
        )
    }

    #[test]
    fn a_title_stands_in_the_middle_and_within_the_margins() {
        let long_title = "The extraordinarily long title of a film that nobody has made yet";
        for (words, size) in [
            (vec!["Dusk"], (1280, 720)),
            (vec![long_title], (1280, 720)),
            (vec![long_title, "a second line"], (720, 1280)),
            (vec!["Donaudampfschifffahrtsgesellschaft"], (480, 854)),
            (vec!["Ночной поезд", "Νυχτερινό τρένο"], (480, 480)),
        ] {
            let ((left, right), (top, bottom)) = extent(&titles(&words, size));
            let (width, height) = (size.0 as usize, size.1 as usize);
            assert!(left * 11 >= width && right * 11 <= width * 10, "{words:?}");
            assert!(top * 10 >= height && bottom * 10 <= height * 9, "{words:?}");
            assert!((left + right).abs_diff(width) < width / 20, "{words:?}");
            assert!((top + bottom).abs_diff(height) < height / 10, "{words:?}");
        }
    }

    #[test]
    fn characters_missing_in_the_font_are_left_out() {
        let (shown, missing) = covered_by_font("Café 夜 №5 夜");
        assert_eq!((shown.as_str(), missing.as_str()), ("Café №5", "夜"));
        assert_eq!(covered_by_font("夜夜"), (String::new(), "夜".to_owned()));
        assert!(!titles(&["Café №5"], (480, 480)).letters.is_empty());
        assert!(titles(&[""], (480, 480)).letters.is_empty());
    }

    #[test]
    fn titles_come_and_go() {
        let titles = titles(&["Dusk"], (480, 480));
        let shown = |frame| {
            let mut rgba = vec![100; 480 * 480 * 4];
            titles.draw(frame, &mut rgba);
            rgba.iter().any(|b| *b > 200)
        };
        assert!(!shown(0) && shown(75) && !shown(149));
        assert!(titles.is_steady(75) && !titles.is_steady(20));
    }
}
