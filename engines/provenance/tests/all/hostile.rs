//! Manifests that were made to do harm: deep, huge, and with false lengths. Each is read or
//! refused, and none is valid.

#![cfg(feature = "c2pa")]

use provenance::credentials::{
    CredentialsError, CredentialsStatus, MAX_MANIFEST_BYTES, MediaFormat, TrustAnchors, read,
};

use crate::stores::{part, png, wav};

/// A JUMBF box that contains others. The last twelve bytes of its kind are the same in all of C2PA.
fn superbox(kind: [u8; 4], label: &str, inside: &[u8]) -> Vec<u8> {
    let rest = [0, 0x11, 0, 0x10, 0x80, 0, 0, 0xaa, 0, 0x38, 0x9b, 0x71];
    let description = [&kind[..], &rest, &[3], label.as_bytes(), &[0]].concat();
    part(
        b"jumb",
        &[&part(b"jumd", &description)[..], inside].concat(),
    )
}

/// A store of one manifest with this claim, in CBOR.
fn store(claim: &[u8]) -> Vec<u8> {
    let claim = superbox(*b"c2cl", "c2pa.claim.v2", &part(b"cbor", claim));
    let signature = superbox(*b"c2cs", "c2pa.signature", &part(b"cbor", &[0xd2, 0x84]));
    let assertions = superbox(*b"c2as", "c2pa.assertions", &[]);
    let inside = [assertions, claim, signature].concat();
    superbox(*b"c2pa", "c2pa", &superbox(*b"c2ma", "urn:c2pa:1", &inside))
}

/// Checks that reading returns, and never reports valid credentials.
fn assert_refused(store: &[u8], name: &str) {
    for (file, format) in [
        (png(store), MediaFormat::Png),
        (wav(store), MediaFormat::Wav),
    ] {
        let Ok(report) = read(&file, format, &TrustAnchors::default()) else {
            continue;
        };
        let is_accepted = !matches!(
            report.status,
            CredentialsStatus::Invalid | CredentialsStatus::None
        );
        assert!(!is_accepted, "{name}, {format:?}: {report:?}");
    }
}

#[test]
fn boxes_in_boxes_are_refused() {
    for depth in [10, 33, 1000, 20_000] {
        let mut deep = part(b"cbor", &[0xa0]);
        for _ in 0..depth {
            deep = superbox(*b"c2ma", "x", &deep);
        }
        assert_refused(&superbox(*b"c2pa", "c2pa", &deep), &format!("{depth} deep"));
    }
}

#[test]
fn values_in_values_are_refused() {
    for opens in [
        &[0x81][..],
        &[0xa1, 0x61, b'x'],
        &[0x9f],
        &[0xc0],
        &[0xd8, 0x18, 0x81],
    ] {
        for depth in [100, 10_000, 500_000] {
            assert_refused(
                &store(&opens.repeat(depth)),
                &format!("{depth} of {opens:?}"),
            );
        }
    }
}

#[test]
fn lengths_of_values_that_lie_are_refused() {
    for kind in [0x40u8, 0x60, 0x80, 0xa0] {
        for length in [
            u64::MAX,
            i64::MAX.cast_unsigned(),
            1 << 40,
            1 << 31,
            1 << 16,
        ] {
            let claim = [&[kind | 0x1b][..], &length.to_be_bytes(), b"abc"].concat();
            assert_refused(&store(&claim), &format!("{kind:#x} of {length}"));
        }
    }
}

#[test]
fn lengths_of_boxes_that_lie_are_refused() {
    let whole = store(&[0xa0]);
    // The beginnings of the store, its description, the manifest and the boxes in that.
    let positions = (0..whole.len() - 8).filter(|position| {
        let kind = &whole[position + 4..position + 8];
        [&b"jumb"[..], b"jumd", b"cbor"].contains(&kind)
    });
    for position in positions {
        for length in [0u32, 1, 7, 8, 9, 0x7fff_ffff, u32::MAX] {
            let mut forged = whole.clone();
            forged[position..position + 4].copy_from_slice(&length.to_be_bytes());
            assert_refused(&forged, &format!("{length} at {position}"));
        }
        // 1 says that the length follows in 64 bits.
        let long = [
            &1u32.to_be_bytes()[..],
            &whole[position + 4..position + 8],
            &u64::MAX.to_be_bytes(),
        ];
        let forged = [&whole[..position], &long.concat(), &whole[position + 8..]].concat();
        assert_refused(&forged, &format!("64 bits at {position}"));
    }
    for end in 0..whole.len() {
        assert_refused(&whole[..end], &format!("cut at {end}"));
    }
}

#[test]
fn a_manifest_that_is_too_long_is_not_read() {
    let max_length = usize::try_from(MAX_MANIFEST_BYTES).unwrap();
    let long = store(&vec![0x81; max_length]);
    let files = [
        (png(&long), MediaFormat::Png),
        (wav(&long), MediaFormat::Wav),
    ];
    for (file, format) in files {
        let refused = read(&file, format, &TrustAnchors::default());
        let is_too_long = |length: u64| length == long.len() as u64;
        assert!(
            matches!(refused, Err(CredentialsError::ManifestTooLong(length)) if is_too_long(length)),
            "{refused:?}"
        );
    }
}
