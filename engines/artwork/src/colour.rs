//! Colours and seeded randomness: a palette from a seed.
//!
//! Colours are chosen in Oklch, where equal steps look equal, so that any hue a seed lands on gives
//! a picture of the same lightness and the same contrast. Nothing here draws.

use tiny_skia::Color;

/// A colour by lightness (0–1), chroma (0–about 0.3) and hue (degrees, any number of turns).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct OklchColour {
    /// Perceived lightness, 0 black to 1 white.
    pub(crate) l: f32,
    /// Colourfulness. `rgb` lowers it if the screen cannot show the colour.
    pub(crate) c: f32,
    /// Hue in degrees: about 30 red, 110 yellow, 145 green, 260 blue, 330 magenta.
    pub(crate) h: f32,
}

impl OklchColour {
    /// The colour of these three numbers.
    pub(crate) const fn new(l: f32, c: f32, h: f32) -> Self {
        Self { l, c, h }
    }

    /// The same hue and chroma, lighter (or darker, when negative) by `amount`.
    pub(crate) fn lighter(self, amount: f32) -> Self {
        Self {
            l: (self.l + amount).clamp(0.0, 1.0),
            ..self
        }
    }

    /// Moves dark yellow, which looks muddy, to the orange or the green next to it; other colours
    /// are not changed.
    pub(crate) fn avoid_dark_yellow(self) -> Self {
        let hue = self.h.rem_euclid(360.0);
        if self.l > 0.7 || !(62.0..142.0).contains(&hue) {
            return self;
        }
        Self {
            h: if hue < 102.0 { 52.0 } else { 152.0 },
            ..self
        }
    }

    /// Oklab coordinates, in which mixing two colours by their mean looks right.
    pub(crate) fn lab(self) -> [f32; 3] {
        let (sin, cos) = self.h.to_radians().sin_cos();
        [self.l, self.c * cos, self.c * sin]
    }

    /// sRGB components, each 0–1. Chroma outside the screen's gamut is lowered step by step.
    pub(crate) fn rgb(self) -> [f32; 3] {
        let mut fitted = self;
        for _ in 0..24 {
            // A thousandth beyond the gamut is rounding, which `encode_gamma` cuts off.
            let linear = linear_rgb(fitted.lab());
            if linear.iter().all(|v| (-0.001..=1.001).contains(v)) {
                break;
            }
            fitted.c *= 0.9;
        }
        linear_rgb(fitted.lab()).map(encode_gamma)
    }

    /// The colour as the drawing library takes it, `alpha` 0–1.
    pub(crate) fn ink(self, alpha: f32) -> Color {
        let [r, g, b] = self.rgb();
        Color::from_rgba(r, g, b, alpha.clamp(0.0, 1.0)).unwrap_or(Color::BLACK)
    }
}

/// Oklab to sRGB components, each 0–1, cut at the gamut's edge.
pub(crate) fn lab_to_rgb(lab: [f32; 3]) -> [f32; 3] {
    linear_rgb(lab).map(encode_gamma)
}

/// Oklab to linear-light sRGB, by the published matrices.
fn linear_rgb([l, a, b]: [f32; 3]) -> [f32; 3] {
    // Björn Ottosson, "A perceptual color space for image processing" (2020).
    let long = (l + 0.396_337_78 * a + 0.215_803_76 * b).powi(3);
    let medium = (l - 0.105_561_346 * a - 0.063_854_17 * b).powi(3);
    let short = (l - 0.089_484_18 * a - 1.291_485_5 * b).powi(3);
    [
        4.076_741_7 * long - 3.307_711_6 * medium + 0.230_969_94 * short,
        -1.268_438 * long + 2.609_757_4 * medium - 0.341_319_38 * short,
        -0.004_196_086_3 * long - 0.703_418_6 * medium + 1.707_614_7 * short,
    ]
}

fn encode_gamma(linear: f32) -> f32 {
    // The transfer function of sRGB, IEC 61966-2-1.
    let v = linear.clamp(0.0, 1.0);
    if v <= 0.003_130_8 {
        v * 12.92
    } else {
        1.055 * v.powf(1.0 / 2.4) - 0.055
    }
}

/// The related colours that a seed gives.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Palette {
    /// The darkest: backgrounds, shadows.
    pub(crate) deep: OklchColour,
    /// Between `deep` and `vivid`.
    pub(crate) mid: OklchColour,
    /// The most colourful, whatever its hue.
    pub(crate) vivid: OklchColour,
    /// Nearly white, tinted with the hue of `vivid`: what is drawn on top.
    pub(crate) light: OklchColour,
    /// Across the colour wheel from `vivid`: one small thing per picture.
    pub(crate) accent: OklchColour,
}

impl Palette {
    /// Chooses neighbouring hues at random, with one opposite accent.
    pub(crate) fn random(random: &mut SeededRandom) -> Self {
        let hue = random.range(0.0, 360.0);
        let step = random.range(28.0, 52.0) * if random.chance(0.5) { 1.0 } else { -1.0 };
        Self {
            deep: OklchColour::new(0.27, 0.09, hue).avoid_dark_yellow(),
            mid: OklchColour::new(0.46, 0.15, hue + step).avoid_dark_yellow(),
            vivid: OklchColour::new(0.66, 0.17, hue + 2.0 * step).avoid_dark_yellow(),
            light: OklchColour::new(0.96, 0.025, hue + 2.0 * step),
            accent: OklchColour::new(0.80, 0.15, hue + 2.0 * step + 160.0),
        }
    }
}

/// Random numbers that are the same for the same words. Every choice in a picture takes the next
/// one.
#[derive(Debug, Clone)]
pub(crate) struct SeededRandom(u64);

impl SeededRandom {
    /// A generator for these words; the purpose keeps the pictures of one seed independent of each
    /// other.
    pub(crate) fn new(purpose: &str, words: &[&str]) -> Self {
        // FNV-1a is enough: the words are not secret and a collision of two pictures gains an
        // attacker nothing. The zero byte between words keeps ("ab", "c") and ("a", "bc") apart.
        let mut state = 0xcbf2_9ce4_8422_2325_u64;
        for word in std::iter::once(&purpose).chain(words) {
            for byte in word.bytes().chain(std::iter::once(0)) {
                state = (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
        Self(state)
    }

    /// The next 24 random bits as a number from 0 (included) to 1 (excluded).
    pub(crate) fn unit(&mut self) -> f32 {
        // SplitMix64, of which the top bits are the best.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        let [a, b, c, ..] = z.to_be_bytes();
        let high = u16::from_be_bytes([a, b]);
        f32::from(high) / 65_536.0 + f32::from(c) / 16_777_216.0
    }

    /// A number between the two.
    pub(crate) fn range(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.unit()
    }

    /// True with this probability, from 0 to 1.
    pub(crate) fn chance(&mut self, probability: f32) -> bool {
        self.unit() < probability
    }

    /// One of `count` choices, from 0.
    pub(crate) fn pick(&mut self, count: u8) -> u8 {
        let mut remaining = self.unit() * f32::from(count);
        let mut choice = 0;
        while remaining >= 1.0 && choice + 1 < count {
            remaining -= 1.0;
            choice += 1;
        }
        choice
    }
}
