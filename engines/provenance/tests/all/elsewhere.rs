//! Files that other programs signed and tagged (`tests/data/README.md`), with the feature `c2pa`
//! and without.

#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::io::Cursor;

use provenance::marks::{self, FileKind, FileMarks};

const SIGNED: &[u8] = include_bytes!("../data/signed_elsewhere.mp4");
const TAGGED: &[u8] = include_bytes!("../data/tagged_elsewhere.mp4");
const PICTURE: &[u8] = include_bytes!("../data/tagged_elsewhere.jpg");
const TRAINED: &str = "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia";

fn read(file: &[u8]) -> FileMarks {
    marks::read(Cursor::new(file)).unwrap()
}

#[test]
fn a_manifest_of_another_signer_is_found_and_its_source_reported() {
    let marks = read(SIGNED);
    assert_eq!((marks.kind, marks.manifests), (FileKind::Mp4, 1));
    assert_eq!(marks.digital_source_type.as_deref(), Some(TRAINED));
    assert!(!marks.xmp && !marks.iptc && !marks.bext, "{marks:?}");
    // A JUMBF superbox, which begins with its length and kind.
    let range = marks.manifest.unwrap();
    let start = usize::try_from(range.start).unwrap();
    assert_eq!(&SIGNED[start + 4..start + 8], b"jumb");
}

#[test]
fn tags_of_another_program_are_found_in_films_and_pictures() {
    for (file, kind) in [(TAGGED, FileKind::Mp4), (PICTURE, FileKind::Jpeg)] {
        let marks = read(file);
        assert_eq!((marks.kind, marks.manifests), (kind, 0));
        assert!(marks.xmp && marks.iptc, "{marks:?}");
        assert_eq!(marks.digital_source_type.as_deref(), Some(TRAINED));
        assert_eq!(marks.software.as_deref(), Some("Elsewhere Video 3.2"));
    }
}

#[cfg(feature = "c2pa")]
mod credentials {
    use provenance::credentials::{
        AssetOrigin, CredentialsStatus, Ingredient, MediaFormat, OriginStatement, PemSigner,
        SignatureAlgorithm, SourceType, TrustAnchors, read, self_made, sign,
    };

    use super::{PICTURE, SIGNED, TAGGED, TRAINED};

    /// The last certificate of the chain, which a caller may trust.
    const ROOT: &str = include_str!("../data/elsewhere_root.pem");

    #[test]
    fn another_signers_film_is_valid_and_trusted_only_by_who_trusts_its_authority() {
        let report = read(SIGNED, MediaFormat::Mp4, &TrustAnchors::default()).unwrap();
        assert_eq!(report.status, CredentialsStatus::Valid, "{report:?}");
        assert_eq!(report.problems, ["signingCredential.untrusted"]);
        let signer = report.signer.unwrap();
        assert_eq!(signer.name.as_deref(), Some("Elsewhere Signing"));
        assert_eq!(signer.issuer.as_deref(), Some("Elsewhere Films"));
        assert!(!signer.self_made && !signer.own, "{signer:?}");
        // Its time stamp, by OpenSSL.
        assert!(signer.time.unwrap().starts_with("2026-11-24T"));
        assert_eq!(report.generator.as_deref(), Some("Elsewhere Video 3.2"));
        assert_eq!(report.digital_source_type.as_deref(), Some(TRAINED));
        assert_eq!(report.actions.len(), 1);
        assert_eq!(report.actions[0].action, "c2pa.created");
        assert_eq!(
            report.actions[0].software.as_deref(),
            Some("elsewhere-film-3")
        );

        let trust = TrustAnchors {
            anchors_pem: Some(ROOT),
            own_pem: None,
        };
        let report = read(SIGNED, MediaFormat::Mp4, &trust).unwrap();
        assert_eq!(report.status, CredentialsStatus::Trusted, "{report:?}");
    }

    #[test]
    fn another_signers_changed_film_is_not_valid() {
        let mut changed = SIGNED.to_vec();
        let last = changed.len() - 40;
        changed[last] ^= 1;
        let report = read(&changed, MediaFormat::Mp4, &TrustAnchors::default()).unwrap();
        assert_eq!(report.status, CredentialsStatus::Invalid);
        assert!(
            report
                .problems
                .contains(&"assertion.bmffHash.mismatch".to_owned())
        );
    }

    #[test]
    fn a_file_made_from_another_signers_film_keeps_its_manifest() {
        let chain = self_made("An installation", SignatureAlgorithm::Es256, 1_767_225_600).unwrap();
        let signer = PemSigner::new(
            &chain.certificates_pem,
            &chain.key_pem,
            SignatureAlgorithm::Es256,
        )
        .unwrap();
        let source = Ingredient {
            title: "the film",
            format: MediaFormat::Mp4,
            bytes: SIGNED,
        };
        let statement = OriginStatement {
            title: "poster",
            generator: ("Mediagate", "0.1.0"),
            model: "poster",
            provider: None,
            prompt: None,
            when: "2026-11-24T12:00:00Z",
            origin: AssetOrigin::Edited(source),
        };
        let poster = sign(
            include_bytes!("../data/picture.jpg"),
            MediaFormat::Jpeg,
            &statement,
            &signer,
        );
        let poster = poster.unwrap();
        let report = read(&poster, MediaFormat::Jpeg, &TrustAnchors::default()).unwrap();
        assert_eq!(
            (report.status, report.ingredients),
            (CredentialsStatus::Valid, vec!["the film".to_owned()])
        );
        assert_eq!(
            super::read(&poster).digital_source_type.as_deref(),
            Some(TRAINED)
        );
        let name = b"Elsewhere Signing";
        assert!(poster.windows(name.len()).any(|window| window == name));
    }

    #[test]
    fn tagged_files_have_no_credentials_and_keep_their_tags_when_signed() {
        let chain = self_made("An installation", SignatureAlgorithm::Es256, 1_767_225_600).unwrap();
        let signer = PemSigner::new(
            &chain.certificates_pem,
            &chain.key_pem,
            SignatureAlgorithm::Es256,
        )
        .unwrap();
        for (file, format) in [(TAGGED, MediaFormat::Mp4), (PICTURE, MediaFormat::Jpeg)] {
            let report = read(file, format, &TrustAnchors::default()).unwrap();
            assert_eq!(report.status, CredentialsStatus::None);
            let statement = OriginStatement {
                title: "output",
                generator: ("Mediagate", "0.1.0"),
                model: "film-1",
                provider: None,
                prompt: None,
                when: "2026-11-24T12:00:00Z",
                origin: AssetOrigin::Created(SourceType::TrainedAlgorithmicMedia),
            };
            let signed = sign(file, format, &statement, &signer).unwrap();
            let marks = super::read(&signed);
            assert!(marks.xmp && marks.iptc && marks.manifests == 1, "{marks:?}");
            assert_eq!(marks.software.as_deref(), Some("Elsewhere Video 3.2"));
        }
    }
}
