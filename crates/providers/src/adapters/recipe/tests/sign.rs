//! Signatures, against those that the official SDKs make of the same call.

use std::time::{Duration, UNIX_EPOCH};

use http::Method;
use serde::Deserialize;
use url::Url;

use super::super::sign::Signing;
use crate::port::{Leaving, Sign as _};
use crate::secret::Secret;

fn signed(signing: &str, url: &str, body: &str) -> Vec<(&'static str, String)> {
    #[derive(Deserialize)]
    struct Auth {
        sign: Signing,
    }
    let auth: Auth = toml::from_str(signing).unwrap();
    let signer = auth.sign.with(&Secret::new("id:secret-key")).unwrap();
    let url = Url::parse(url).unwrap();
    let call = Leaving {
        method: &Method::POST,
        url: &url,
        mime: Some("application/json"),
        body: body.as_bytes(),
        now: UNIX_EPOCH + Duration::from_secs(1_795_000_000),
    };
    signer.sign(&call).unwrap()
}

#[test]
fn tencent_wants_tc3() {
    let headers = signed(
        r#"sign = { method = "tc3", service = "vclm" }"#,
        "https://vclm.tencentcloudapi.com/",
        r#"{"Prompt":"a lake"}"#,
    );
    let proof = "TC3-HMAC-SHA256 Credential=id/2026-11-18/vclm/tc3_request, SignedHeaders=content-type;host, \
                 Signature=f3591c507020217a9069638b4aa853981d9a0f45661d8f26fdec903f82a667e2";
    assert_eq!(
        headers,
        [
            ("x-tc-timestamp", "1795000000".to_owned()),
            ("authorization", proof.to_owned())
        ]
    );
}

#[test]
fn volcengine_signs_its_query_too() {
    let headers = signed(
        r#"sign = { method = "volcengine", service = "cv", region = "cn-north-1" }"#,
        "https://visual.volcengineapi.com/?Version=2022-08-31&Action=CVSync2AsyncSubmitTask",
        r#"{"req_key":"jimeng_t2v_v30"}"#,
    );
    let hash = "35a80ef09335c09ecd16b019c98178a01bebbb03a4716ee0e4d7ed31e328b3f4";
    let proof = "HMAC-SHA256 Credential=id/20261118/cn-north-1/cv/request, \
                 SignedHeaders=content-type;host;x-content-sha256;x-date, \
                 Signature=704116f6d75dafbd31b0be90ba5f2937e89c41164580fa4f3b184d1de1e44ecf";
    assert_eq!(
        headers,
        [
            ("x-content-sha256", hash.to_owned()),
            ("x-date", "20261118T110640Z".to_owned()),
            ("authorization", proof.to_owned())
        ]
    );
}

#[test]
fn a_credential_is_a_pair() {
    let cook = super::cook(&super::signed()).unwrap();
    for wrong in ["", "id", "id:", ":key"] {
        let secret = Secret::new(wrong);
        assert!(cook.fault_of_secret(&secret).is_some(), "{wrong:?}");
        assert!(cook.authorize(&secret, UNIX_EPOCH).is_err(), "{wrong:?}");
    }
    assert_eq!(cook.fault_of_secret(&Secret::new("id:key")), None);
}
