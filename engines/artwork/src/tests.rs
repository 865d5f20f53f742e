//! Properties of every picture, whatever it shows.

use super::{ArtworkError, avatar, spectrogram_cover, waveform_cover};

const FONT: &[u8] = include_bytes!("../../animatic/fonts/InterDisplay-SemiBold.otf");

type Drawing = fn(&str, u32) -> Result<Vec<u8>, ArtworkError>;

const DRAWINGS: &[Drawing] = &[
    |seed, side| waveform_cover(seed, &[tone(440.0, 30_000), tone(660.0, 20_000)], side),
    |seed, side| {
        spectrogram_cover(
            seed,
            &[tone(440.0, 30_000), tone(660.0, 20_000)],
            44_100,
            side,
        )
    },
    |seed, side| avatar(FONT, seed, "Ada", side),
];

#[test]
fn is_a_png_of_the_requested_size() {
    for draw in DRAWINGS {
        for side in [16, 97, 256] {
            let bytes = draw("seed", side).unwrap();
            let picture =
                image::load_from_memory_with_format(&bytes, image::ImageFormat::Png).unwrap();
            assert_eq!((picture.width(), picture.height()), (side, side));
        }
    }
}

#[test]
fn depends_only_on_its_inputs() {
    for draw in DRAWINGS {
        assert_eq!(draw("one", 64).unwrap(), draw("one", 64).unwrap());
        assert_ne!(draw("one", 64).unwrap(), draw("two", 64).unwrap());
    }
    assert_ne!(
        avatar(FONT, "x", "Ada", 64).unwrap(),
        avatar(FONT, "x", "Bea", 64).unwrap()
    );
}

#[test]
fn refuses_sides_that_make_no_sense() {
    for draw in DRAWINGS {
        for side in [0, 1, 15, 2049, u32::MAX] {
            assert!(
                matches!(draw("seed", side), Err(ArtworkError::Side(refused)) if refused == side)
            );
        }
    }
}

#[test]
fn takes_any_sound() {
    let sounds: [&[Vec<f32>]; 7] = [
        &[],
        &[vec![]],
        &[vec![], vec![0.5]],
        &[vec![0.0; 9_000]],
        &[vec![f32::NAN; 5_000], vec![f32::INFINITY; 7]],
        &[vec![f32::MAX; 6_000], vec![f32::MIN; 6_000]],
        &[vec![f32::MIN_POSITIVE; 6_000]],
    ];
    for sound in sounds {
        // Three layouts of the waveform; these seeds take all of them.
        for seed in ["", "a", "b", "c", "d", "\u{0}\u{fffd}🦀"] {
            waveform_cover(seed, sound, 48).unwrap();
        }
        spectrogram_cover("", sound, 44_100, 48).unwrap();
    }
    for rate in [0, 1, 8_000, u32::MAX] {
        spectrogram_cover("", &[tone(440.0, 9_000)], rate, 48).unwrap();
    }
}

#[test]
fn takes_any_words() {
    let long = "é".repeat(5_000);
    for seed in ["", "\u{0}", "../../etc", "<script>", long.as_str()] {
        avatar(FONT, seed, seed, 48).unwrap();
        avatar(b"no font", seed, seed, 48).unwrap();
    }
}

#[test]
fn an_avatar_shows_the_first_letter_of_the_name() {
    // The middle of an "I" is light; that of an "O", or of no letter, is background.
    let middle = |name: &str| {
        let bytes = avatar(FONT, "seed", name, 100).unwrap();
        let picture = image::load_from_memory(&bytes).unwrap().into_luma8();
        picture.get_pixel(50, 50)[0]
    };
    for (stroke, hole) in [
        ("Ida", "Olga"),
        ("(i)", "_o"),
        ("İpek", "Ömer"),
        ("Ira", "明"),
    ] {
        assert!(middle(stroke) > 200, "{stroke}: {}", middle(stroke));
        assert!(middle(hole) < 170, "{hole}: {}", middle(hole));
    }
}

fn tone(hertz: f32, count: u16) -> Vec<f32> {
    (0..count)
        .map(|index| (f32::from(index) * hertz * std::f32::consts::TAU / 44_100.0).sin() * 0.5)
        .collect()
}
