//! The models that Runway offers, its own and others': what each takes, and in
//! which of Runway's ways its size is said.
//!
//! Source: the types of the `runwayml` SDK 5.24.0 (Python), read in November
//! 2026. They do not bound the lengths of all models; those of wan3, grok and
//! h3 are what their makers sell.

use crate::limits::{Durations, Pictures, VideoLimits};

/// How a size is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// `ratio: "1280:720"`
    Pixels,
    /// `ratio: "16:9"` beside `resolution`.
    Shape,
    /// `resolution` alone: the picture or the model decides on the shape.
    Tier,
    /// `ratio: "auto_720p"`: the picture decides on the shape.
    Auto,
    /// Not at all.
    Nothing,
}

/// How a model is asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Model {
    name: &'static str,
    sizes: &'static [&'static [(u32, u32)]],
    seconds: Seconds,
    /// Frames that it takes.
    frames: usize,
    needs_picture: bool,
    /// How the size is said without a picture, and with one.
    of_text: Told,
    of_picture: Told,
    /// Words for the finenesses of `resolution`, by the shorter side.
    tiers: &'static [(u32, &'static str)],
    negative_prompt: bool,
    seed: bool,
    /// What comes where `audio` is a member and nobody says it.
    audio: Option<bool>,
    /// How many `references` it takes in place of frames.
    references: usize,
    max_prompt: usize,
}

#[derive(Debug, Clone, Copy)]
enum Seconds {
    Only(&'static [u32]),
    Range(u32, u32),
}

const HD: &[(u32, u32)] = &[(1280, 720), (720, 1280)];
const FULL_HD: &[(u32, u32)] = &[(1920, 1080), (1080, 1920)];
const UHD: &[(u32, u32)] = &[(3840, 2160), (2160, 3840)];
const GEN4: &[(u32, u32)] = &[(1104, 832), (832, 1104), (960, 960), (1584, 672)];
const SEEDANCE: &[(u32, u32)] = &[
    (960, 960),
    (1112, 834),
    (834, 1112),
    (1470, 630),
    (752, 560),
    (640, 640),
    (560, 752),
    (992, 432),
];
const SEEDANCE_480: &[(u32, u32)] = &[(864, 496), (496, 864)];
const SEEDANCE_1080: &[(u32, u32)] = &[
    (1920, 1080),
    (1080, 1920),
    (1440, 1440),
    (1664, 1248),
    (1248, 1664),
    (2206, 946),
];
const WAN: &[(u32, u32)] = &[
    (960, 960),
    (1104, 832),
    (832, 1104),
    (1440, 1440),
    (1648, 1248),
    (1248, 1648),
    (832, 480),
    (480, 832),
    (624, 624),
];
const H3: &[(u32, u32)] = &[(1366, 768), (768, 1366), (768, 768)];
const QHD: &[(u32, u32)] = &[(2560, 1440), (1440, 2560), (1440, 1440)];

/// What a model is taken for that is not in the list.
const OTHER: Model = Model {
    name: "",
    sizes: &[HD],
    seconds: Seconds::Only(&[5, 10]),
    frames: 1,
    needs_picture: false,
    of_text: Told::Pixels,
    of_picture: Told::Pixels,
    tiers: &[],
    negative_prompt: false,
    seed: false,
    audio: None,
    references: 0,
    max_prompt: 1000,
};

const KNOWN: [Model; 25] = [
    Model {
        name: "gen4_turbo",
        sizes: &[HD, GEN4],
        needs_picture: true,
        seed: true,
        ..OTHER
    },
    // Of the shapes that it makes from pictures it makes two from text.
    Model {
        name: "gen4.5",
        seconds: Seconds::Range(2, 10),
        seed: true,
        ..OTHER
    },
    Model {
        name: "veo3.1",
        ..VEO
    },
    Model {
        name: "veo3.1_fast",
        ..VEO
    },
    // From a picture it takes the picture's shape.
    Model {
        name: "kling2.5_turbo_pro",
        sizes: &[HD, FULL_HD, &[(720, 720), (1440, 1440)]],
        frames: 2,
        of_picture: Told::Nothing,
        ..OTHER
    },
    Model {
        name: "kling3.0_standard",
        ..KLING_3
    },
    Model {
        name: "klingO3_standard",
        ..KLING_3
    },
    Model {
        name: "kling3.0_pro",
        ..KLING_3_PRO
    },
    Model {
        name: "klingO3_pro",
        ..KLING_3_PRO
    },
    Model {
        name: "kling3.0_4k",
        ..KLING_3_4K
    },
    Model {
        name: "klingO3_4k",
        ..KLING_3_4K
    },
    Model {
        name: "kling_4",
        sizes: &[HD, FULL_HD, &[(1440, 1440), (940, 940)]],
        seconds: Seconds::Range(3, 30),
        frames: 2,
        of_picture: Told::Auto,
        ..OTHER
    },
    Model {
        name: "seedance2",
        sizes: &[HD, SEEDANCE, SEEDANCE_480, SEEDANCE_1080, UHD],
        ..SEEDANCE_2
    },
    Model {
        name: "seedance2_fast",
        ..SEEDANCE_2
    },
    Model {
        name: "seedance2_mini",
        ..SEEDANCE_2
    },
    Model {
        name: "seedance2_5",
        sizes: &[HD, SEEDANCE, &[(854, 480), (480, 854)], SEEDANCE_1080],
        seconds: Seconds::Range(4, 30),
        references: 30,
        ..SEEDANCE_2
    },
    Model {
        name: "hailuo3",
        sizes: &[H3, QHD],
        seconds: Seconds::Range(4, 15),
        frames: 2,
        of_text: Told::Shape,
        of_picture: Told::Tier,
        tiers: &[(768, "768P"), (1440, "2K")],
        references: 9,
        ..OTHER
    },
    Model {
        name: "h3_max",
        sizes: &[&[(1366, 768), (854, 480)]],
        seconds: Seconds::Range(4, 15),
        frames: 2,
        of_text: Told::Tier,
        of_picture: Told::Tier,
        tiers: &[(768, "768p"), (480, "480p")],
        seed: true,
        ..OTHER
    },
    Model {
        name: "grok_imagine_1_5",
        sizes: &[HD, FULL_HD, &[(720, 720), (854, 480), (480, 854)]],
        seconds: Seconds::Range(1, 15),
        of_text: Told::Shape,
        of_picture: Told::Tier,
        tiers: &[(720, "720p"), (1080, "1080p"), (480, "480p")],
        ..OTHER
    },
    Model {
        name: "grok_imagine_1_5_lite",
        sizes: &[HD, &[(720, 720), (848, 480), (480, 848)]],
        seconds: Seconds::Range(1, 15),
        of_picture: Told::Auto,
        ..OTHER
    },
    Model {
        name: "happyhorse_1_0",
        sizes: &[HD, FULL_HD, &[(960, 960), (1440, 1440)]],
        seconds: Seconds::Range(3, 15),
        of_picture: Told::Tier,
        tiers: &[
            (720, "720p"),
            (960, "720p"),
            (1080, "1080p"),
            (1440, "1080p"),
        ],
        ..OTHER
    },
    Model {
        name: "wan3",
        ..WAN_3
    },
    Model {
        name: "wan3_prime",
        ..WAN_3
    },
    Model {
        name: "gemini_omni_flash",
        seconds: Seconds::Range(3, 10),
        ..OTHER
    },
    Model {
        name: "gemini_omni_flash_1.1",
        sizes: &[HD, FULL_HD, UHD, &[(640, 360), (360, 640)]],
        seconds: Seconds::Range(3, 10),
        frames: 2,
        ..OTHER
    },
];

const VEO: Model = Model {
    sizes: &[HD, FULL_HD],
    seconds: Seconds::Only(&[4, 6, 8]),
    frames: 2,
    negative_prompt: true,
    seed: true,
    audio: Some(true),
    ..OTHER
};
const KLING_3: Model = Model {
    sizes: &[HD, &[(960, 960)]],
    seconds: Seconds::Range(3, 15),
    frames: 2,
    audio: Some(true),
    ..OTHER
};
const KLING_3_PRO: Model = Model {
    sizes: &[FULL_HD, &[(1440, 1440)]],
    ..KLING_3
};
const KLING_3_4K: Model = Model {
    sizes: &[UHD, &[(2880, 2880)]],
    ..KLING_3
};
const SEEDANCE_2: Model = Model {
    sizes: &[HD, SEEDANCE, SEEDANCE_480],
    seconds: Seconds::Range(4, 15),
    frames: 2,
    seed: true,
    audio: Some(true),
    references: 9,
    max_prompt: 3500,
    ..OTHER
};
const WAN_3: Model = Model {
    sizes: &[HD, FULL_HD, WAN],
    seconds: Seconds::Range(3, 15),
    frames: 2,
    audio: Some(true),
    references: 10,
    ..OTHER
};

/// How a model is asked.
pub(super) fn of(name: &str) -> Model {
    let found = KNOWN.iter().find(|model| model.name == name);
    found.copied().unwrap_or(OTHER)
}

impl Model {
    pub(super) fn limits(&self) -> VideoLimits {
        let durations = match self.seconds {
            Seconds::Only(list) => Durations::Only(list.to_vec()),
            Seconds::Range(min, max) => Durations::Range { min, max },
        };
        VideoLimits {
            sizes: self.sizes.concat(),
            default_seconds: if durations.contains(5.0) {
                5
            } else {
                durations.min()
            },
            durations,
            pictures: Pictures {
                needed: self.needs_picture,
                references: self.references,
                ..Pictures::frames(self.frames)
            },
            negative_prompt: self.negative_prompt,
            seed: self.seed,
            audio: self.audio,
            max_prompt: self.max_prompt,
        }
    }

    /// Whether the model has a way to say this size.
    pub(super) fn can_say(&self, size: (u32, u32)) -> bool {
        self.name.is_empty() || self.sizes.iter().any(|sizes| sizes.contains(&size))
    }

    /// How its size is said.
    pub(super) const fn told(&self, with_picture: bool) -> Told {
        if with_picture {
            self.of_picture
        } else {
            self.of_text
        }
    }

    /// The word for a size's fineness.
    pub(super) fn tier(&self, (width, height): (u32, u32)) -> &'static str {
        let short = width.min(height);
        let found = self.tiers.iter().find(|(tier, _)| *tier == short);
        found
            .or(self.tiers.first())
            .map_or("720p", |(_, word)| word)
    }

    pub(super) const fn max_prompt(&self) -> usize {
        self.max_prompt
    }
}
