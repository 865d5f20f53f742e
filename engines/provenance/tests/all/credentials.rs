//! Signs and reads files of every format, and reads damaged ones.

#![cfg(feature = "c2pa")]
#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::sync::Mutex;

use proptest::prelude::*;
use provenance::credentials::{
    AssetOrigin, ContentSigner, CredentialsError, CredentialsStatus, Ingredient, MediaFormat,
    OriginStatement, PemSigner, SELF_MADE, SelfMadeChain, SignFailure, SignatureAlgorithm,
    SourceType, TrustAnchors, read, self_made, sign, try_out,
};
use provenance::marks;

/// When the certificates become valid, for ten years: the library compares them with the clock.
const NOW: i64 = 1_767_225_600;
const TRAINED: &str = "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia";
const FILES: [(MediaFormat, &[u8]); 7] = [
    (MediaFormat::Mp4, include_bytes!("../data/film.mp4")),
    (MediaFormat::M4a, include_bytes!("../data/sound.m4a")),
    (MediaFormat::Wav, include_bytes!("../data/sound.wav")),
    (MediaFormat::Flac, include_bytes!("../data/sound.flac")),
    (MediaFormat::Mp3, include_bytes!("../data/sound.mp3")),
    (MediaFormat::Png, include_bytes!("../data/picture.png")),
    (MediaFormat::Jpeg, include_bytes!("../data/picture.jpg")),
];

fn chain(algorithm: SignatureAlgorithm) -> (SelfMadeChain, PemSigner) {
    let chain = self_made("An installation", algorithm, NOW).unwrap();
    let signer = PemSigner::new(&chain.certificates_pem, &chain.key_pem, algorithm).unwrap();
    (chain, signer)
}

fn statement(origin: AssetOrigin<'_>) -> OriginStatement<'_> {
    OriginStatement {
        title: "clip",
        generator: ("Mediagate", "0.1.0"),
        model: "video-1",
        provider: Some("Example"),
        prompt: None,
        when: "2026-11-23T12:00:00Z",
        origin,
    }
}

fn created() -> OriginStatement<'static> {
    statement(AssetOrigin::Created(SourceType::TrainedAlgorithmicMedia))
}

#[test]
fn every_format_is_signed_and_names_its_generator() {
    let (chain, signer) = chain(SignatureAlgorithm::Es256);
    let trust = TrustAnchors {
        own_pem: Some(&chain.certificates_pem),
        ..TrustAnchors::default()
    };
    for (format, file) in FILES {
        assert_eq!(
            read(file, format, &trust).unwrap().status,
            CredentialsStatus::None,
            "{format:?}"
        );
        let signed = sign(file, format, &created(), &signer).unwrap();
        let report = read(&signed, format, &trust).unwrap();
        assert_eq!(
            report.status,
            CredentialsStatus::Valid,
            "{format:?} {report:?}"
        );
        assert_eq!(report.generator.as_deref(), Some("Mediagate 0.1.0"));
        assert_eq!(report.digital_source_type.as_deref(), Some(TRAINED));
        assert_eq!(report.actions.len(), 1, "{report:?}");
        assert_eq!(report.actions[0].action, "c2pa.created");
        assert_eq!(report.actions[0].software.as_deref(), Some("video-1"));
        let signer_identity = report.signer.unwrap();
        assert!(
            signer_identity.self_made && signer_identity.own,
            "{signer_identity:?}"
        );
        assert_eq!(signer_identity.name.as_deref(), Some("An installation"));
        assert_eq!(signer_identity.issuer.as_deref(), Some(SELF_MADE));
        // The parser that needs no library finds the same.
        let marks = marks::read(std::io::Cursor::new(&signed)).unwrap();
        assert_eq!(
            (marks.manifests, marks.digital_source_type.as_deref()),
            (1, Some(TRAINED))
        );
    }
}

#[test]
fn a_prompt_is_stated_as_metadata_where_it_is_given() {
    let (_, signer) = chain(SignatureAlgorithm::Es256);
    for (format, file) in FILES {
        let mut created_statement = created();
        for prompt in [None, Some("a lake \"at dawn\", säuselnder Wind")] {
            created_statement.prompt = prompt;
            let signed = sign(file, format, &created_statement, &signer).unwrap();
            let report = read(&signed, format, &TrustAnchors::default()).unwrap();
            assert_eq!(
                report.status,
                CredentialsStatus::Valid,
                "{format:?} {report:?}"
            );
            assert_eq!(report.prompt.as_deref(), prompt, "{format:?}");
        }
    }
}

#[test]
fn every_algorithm_signs_and_an_anchor_is_trusted() {
    for algorithm in [
        SignatureAlgorithm::Es256,
        SignatureAlgorithm::Es384,
        SignatureAlgorithm::Ed25519,
    ] {
        let (chain, signer) = chain(algorithm);
        let signed = sign(FILES[5].1, MediaFormat::Png, &created(), &signer).unwrap();
        let trust = TrustAnchors {
            anchors_pem: Some(&chain.certificates_pem),
            own_pem: None,
        };
        let report = read(&signed, MediaFormat::Png, &trust).unwrap();
        assert_eq!(
            report.status,
            CredentialsStatus::Trusted,
            "{algorithm:?} {report:?}"
        );
        assert!(!report.signer.unwrap().own);
    }
}

#[test]
fn an_edit_names_its_source_and_keeps_its_statements() {
    let (_, signer) = chain(SignatureAlgorithm::Es256);
    let (_, wav) = FILES[2];
    let source = sign(wav, MediaFormat::Wav, &created(), &signer).unwrap();
    let ingredient = Ingredient {
        title: "the mix",
        format: MediaFormat::Wav,
        bytes: &source,
    };
    let edited = statement(AssetOrigin::Edited(ingredient));
    let signed = sign(FILES[3].1, MediaFormat::Flac, &edited, &signer).unwrap();
    let report = read(&signed, MediaFormat::Flac, &TrustAnchors::default()).unwrap();
    assert_eq!(report.status, CredentialsStatus::Valid, "{report:?}");
    let actions: Vec<&str> = report
        .actions
        .iter()
        .map(|action| action.action.as_str())
        .collect();
    assert_eq!(actions, ["c2pa.opened", "c2pa.edited"]);
    assert_eq!(report.ingredients, ["the mix"]);
    assert_eq!(report.digital_source_type, None);
}

#[test]
fn a_picture_of_a_film_names_the_film() {
    let (_, signer) = chain(SignatureAlgorithm::Es256);
    let film = sign(FILES[0].1, MediaFormat::Mp4, &created(), &signer).unwrap();
    let ingredient = Ingredient {
        title: "the film",
        format: MediaFormat::Mp4,
        bytes: &film,
    };
    let (format, picture) = FILES[6];
    let edited = statement(AssetOrigin::Edited(ingredient));
    let signed = sign(picture, format, &edited, &signer).unwrap();
    let report = read(&signed, format, &TrustAnchors::default()).unwrap();
    assert_eq!(
        (report.status, report.ingredients),
        (CredentialsStatus::Valid, vec!["the film".to_owned()])
    );
    let marks = marks::read(std::io::Cursor::new(&signed)).unwrap();
    // What the film said of its source goes with it.
    assert_eq!(
        (marks.manifests, marks.digital_source_type.as_deref()),
        (1, Some(TRAINED))
    );
}

#[test]
fn a_changed_file_is_not_valid() {
    let (_, signer) = chain(SignatureAlgorithm::Ed25519);
    for (format, file) in FILES {
        let mut signed = sign(file, format, &created(), &signer).unwrap();
        // In MP4 and M4A the media is found by the name of its box. In all others the bytes before
        // the end are picture or sound.
        let position = match format {
            MediaFormat::Mp4 | MediaFormat::M4a => {
                signed.windows(4).position(|word| word == b"mdat").unwrap() + 40
            }
            _ => signed.len() - 40,
        };
        signed[position] ^= 1;
        let report = read(&signed, format, &TrustAnchors::default()).unwrap();
        assert_eq!(report.status, CredentialsStatus::Invalid, "{format:?}");
        assert!(!report.problems.is_empty());
    }
}

/// Signs as an external service would, and keeps the time-stamp requests.
struct ExternalSigner {
    inner: PemSigner,
    stamp: Option<SignFailure>,
    requests: Mutex<Vec<Vec<u8>>>,
}

impl ContentSigner for ExternalSigner {
    fn algorithm(&self) -> SignatureAlgorithm {
        self.inner.algorithm()
    }

    fn certificates(&self) -> Result<Vec<Vec<u8>>, SignFailure> {
        self.inner.certificates()
    }

    fn sign(&self, bytes: &[u8]) -> Result<Vec<u8>, SignFailure> {
        self.inner.sign(bytes)
    }

    fn time_stamp(&self, request: &[u8]) -> Option<Result<Vec<u8>, SignFailure>> {
        self.requests.lock().unwrap().push(request.to_vec());
        self.stamp.clone().map(Err)
    }
}

#[test]
fn an_outside_signer_signs_and_its_missing_time_stamp_fails_the_signing() {
    let (_, inner) = chain(SignatureAlgorithm::Es384);
    let mut external = ExternalSigner {
        inner,
        stamp: None,
        requests: Mutex::default(),
    };
    let signed = sign(FILES[5].1, MediaFormat::Png, &created(), &external).unwrap();
    let report = read(&signed, MediaFormat::Png, &TrustAnchors::default()).unwrap();
    assert_eq!(report.status, CredentialsStatus::Valid);
    assert_eq!(report.signer.unwrap().time, None);
    // An RFC 3161 request: a sequence that begins with version 1.
    let requests = std::mem::take(&mut *external.requests.lock().unwrap());
    assert!(!requests.is_empty());
    assert!(
        requests
            .iter()
            .all(|request| request[0] == 0x30 && request[2..5] == [2, 1, 1])
    );
    external.stamp = Some(SignFailure("no answer".to_owned()));
    let failed = sign(FILES[5].1, MediaFormat::Png, &created(), &external);
    assert!(
        matches!(failed, Err(CredentialsError::Sign(_))),
        "{failed:?}"
    );
}

#[test]
fn keys_that_do_not_fit_are_refused() {
    let (first, signer) = chain(SignatureAlgorithm::Es256);
    try_out(&signer).unwrap();
    let refused = PemSigner::new(&first.certificates_pem, "no key", SignatureAlgorithm::Es256);
    assert!(matches!(refused.err(), Some(CredentialsError::Key(_))));
    // A key of the right kind that belongs to another certificate, and a chain that has expired.
    let (second, _) = chain(SignatureAlgorithm::Es256);
    let old = self_made("old", SignatureAlgorithm::Es256, 0).unwrap();
    for (certificates, key) in [
        (&first.certificates_pem, &second.key_pem),
        (&old.certificates_pem, &old.key_pem),
    ] {
        let signer = PemSigner::new(certificates, key, SignatureAlgorithm::Es256);
        let refused = signer.and_then(|signer| try_out(&signer));
        assert!(refused.is_err());
    }
}

#[test]
fn texts_that_are_too_long_are_refused() {
    let (_, signer) = chain(SignatureAlgorithm::Es256);
    let long = "x".repeat(513);
    let statement = OriginStatement {
        title: &long,
        ..created()
    };
    let refused = sign(FILES[5].1, MediaFormat::Png, &statement, &signer);
    assert!(matches!(
        refused,
        Err(CredentialsError::TextTooLong("the title"))
    ));
}

#[test]
fn two_manifests_are_no_credentials() {
    let (_, signer) = chain(SignatureAlgorithm::Es256);
    let signed = sign(FILES[5].1, MediaFormat::Png, &created(), &signer).unwrap();
    let position = signed.windows(4).position(|word| word == b"caBX").unwrap() - 4;
    let length = u32::from_be_bytes(signed[position..position + 4].try_into().unwrap()) as usize;
    let chunk = signed[position..position + length + 12].to_vec();
    let twice = [&signed[..position], &chunk, &signed[position..]].concat();
    let report = read(&twice, MediaFormat::Png, &TrustAnchors::default()).unwrap();
    assert_eq!(report.status, CredentialsStatus::Invalid);
    assert_eq!(report.problems, ["manifest.multiple"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_damaged_manifest_is_read_and_never_valid_with_other_claims(
        file_index in 0..FILES.len(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..6),
    ) {
        let (format, file) = FILES[file_index];
        let (_, signer) = chain(SignatureAlgorithm::Ed25519);
        let mut signed = sign(file, format, &created(), &signer).unwrap();
        let range = marks::read(std::io::Cursor::new(&signed)).unwrap().manifest.unwrap();
        let start = usize::try_from(range.start).unwrap();
        let intact = signed.clone();
        // Only the claim and its assertions are changed, not the padding behind them.
        for (position, change) in changes {
            signed[start + position.index(600)] ^= change;
        }
        prop_assume!(signed != intact);
        // The header of the outermost box is not signed: without harm it says the same as before.
        if let Ok(report) = read(&signed, format, &TrustAnchors::default())
            && report.status == CredentialsStatus::Valid
        {
            let before = read(&intact, format, &TrustAnchors::default()).unwrap();
            prop_assert_eq!(report, before);
        }
    }
}
