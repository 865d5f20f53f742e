//! Finished films are decoded again; damaged and foreign ones are refused.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Cursor;

use animatic::playback::{PlaybackError, check_playable, play};
use animatic::{Direction, RenderControl, RenderOptions, RenderRequest, RequestedOptions};

fn film() -> Vec<u8> {
    let prompt = "a lake at dawn, pan left";
    let requested = RequestedOptions {
        size: Some((640, 480)),
        seconds: Some(1.0),
        ..RequestedOptions::default()
    };
    let options = RenderOptions::resolve(&requested, &Direction::parse(prompt)).unwrap();
    let request = RenderRequest {
        picture: None,
        prompt,
        options,
    };
    animatic::make(&request, &mut RenderControl::unattended())
        .unwrap()
        .mp4
}

#[test]
fn every_frame_is_shown_in_its_size() {
    let film = film();
    check_playable(Cursor::new(&film)).unwrap();
    let mut numbers = Vec::new();
    let shown = play(Cursor::new(&film), 1000, &mut |frame| {
        assert_eq!((frame.width, frame.height), (640, 480));
        assert!(frame.luma.len() >= frame.stride * 479 + 640);
        assert!((23.0..61.0).contains(&frame.frames_per_second));
        if frame.number == 0 {
            assert_eq!(frame.picture().unwrap().size(), (640, 480));
        }
        numbers.push(frame.number);
        true
    });
    let shown = shown.unwrap();
    assert!(shown >= 24, "{shown}");
    assert_eq!(numbers, (0..shown).collect::<Vec<_>>());
    assert_eq!(play(Cursor::new(&film), 5, &mut |_| true).unwrap(), 5);
}

#[test]
fn damaged_films_and_other_files_are_refused() {
    let film = film();
    for bytes in [&b""[..], b"not a film at all", &film[..film.len() / 3]] {
        assert!(check_playable(Cursor::new(bytes)).is_err());
    }
    let foreign: Vec<u8> = film.clone();
    let position = foreign.windows(4).position(|kind| kind == b"avc1").unwrap();
    // The first `avc1` is among the file's brands; the next one is the codec.
    let position = foreign[position + 4..]
        .windows(4)
        .position(|kind| kind == b"avc1")
        .map_or(position, |next| position + 4 + next);
    let mut foreign = foreign;
    foreign[position..position + 4].copy_from_slice(b"hvc1");
    let refused = check_playable(Cursor::new(&foreign));
    assert!(matches!(refused, Err(PlaybackError::Codec(name)) if name == "hvc1"));
    // Reading damaged tables must come to an end.
    let start = film.windows(4).position(|kind| kind == b"stbl").unwrap();
    for position in (start..film.len().min(start + 2000)).step_by(7) {
        let mut damaged = film.clone();
        damaged[position] ^= 0xff;
        drop(check_playable(Cursor::new(&damaged)));
    }
}
