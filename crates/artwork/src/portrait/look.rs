//! What one persona looks like: drawn once, so that all parts of the portrait agree.

use crate::colour::{Dice, Lch, Palette};

/// The colours and the cut of one persona.
pub(super) struct Look {
    pub(super) skin: Lch,
    pub(super) hair: Lch,
    pub(super) cloth: Lch,
    pub(super) ink: Lch,
    /// Which way the light comes from: -1 left, 1 right.
    pub(super) light: f32,
    pub(super) cut: u8,
}

impl Look {
    pub(super) fn draw(dice: &mut Dice, palette: &Palette) -> Self {
        let skin = Lch::new(
            dice.range(0.52, 0.84),
            dice.range(0.07, 0.11),
            dice.range(42.0, 66.0),
        );
        let hair = if dice.chance(0.45) {
            Lch::new(dice.range(0.24, 0.34), 0.05, dice.range(20.0, 70.0))
        } else {
            Lch::new(
                dice.range(0.36, 0.80),
                0.14,
                palette.warm.h + dice.range(-60.0, 200.0),
            )
        };
        Self {
            skin,
            hair,
            cloth: Lch::new(
                dice.range(0.34, 0.60),
                0.13,
                palette.accent.h + dice.range(-40.0, 40.0),
            )
            .clean(),
            ink: Lch::new(0.22, 0.05, hair.h),
            light: if dice.chance(0.5) { 1.0 } else { -1.0 },
            cut: dice.pick(7),
        }
    }
}
