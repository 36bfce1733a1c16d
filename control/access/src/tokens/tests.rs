use super::*;

/// What exists: the uid of each object of that kind and name.
struct World(Vec<(&'static str, &'static str, &'static str)>);

impl World {
    fn found(&self, kind: &str, name: &str) -> Option<BoundObjectState> {
        let entry = self
            .0
            .iter()
            .find(|entry| entry.0 == kind && entry.1 == name)?;
        // "uid@time": its deletion began then.
        let (uid, deleting) = entry.2.split_once('@').unwrap_or((entry.2, ""));
        Some(BoundObjectState {
            uid: uid.to_owned(),
            deleting: deleting.parse().ok(),
        })
    }
}

impl ServiceAccountTokenGetter for World {
    fn service_account(&self, namespace: &str, name: &str) -> Option<BoundObjectState> {
        self.found("sa", &format!("{namespace}/{name}"))
    }
    fn pod(&self, namespace: &str, name: &str) -> Option<BoundObjectState> {
        self.found("pod", &format!("{namespace}/{name}"))
    }
    fn secret(&self, namespace: &str, name: &str) -> Option<FoundSecret> {
        let key = format!("{namespace}/{name}");
        let held = |kind| {
            let entry = self
                .0
                .iter()
                .find(|entry| entry.0 == kind && entry.1 == key);
            entry.map(|entry| entry.2.to_owned()).unwrap_or_default()
        };
        Some(FoundSecret {
            found: self.found("secret", &key)?,
            token: held("token").into_bytes(),
            invalid_since: held("invalid"),
            last_used: held("used"),
        })
    }
    fn node(&self, name: &str) -> Option<BoundObjectState> {
        self.found("node", name)
    }
    fn lists_secret(&self, _namespace: &str, account: &str, secret: &str) -> bool {
        self.0
            .contains(&("lists", Box::leak(account.into()), Box::leak(secret.into())))
    }
}

fn tokens() -> (tempfile::TempDir, Tokens) {
    let dir = tempfile::tempdir().expect("a directory");
    let key = ServiceAccountKey::load_or_create(dir.path()).expect("a key");
    (dir, Tokens::new(Arc::new(key)))
}

fn reference(name: &str, uid: &str) -> Reference {
    Reference {
        name: name.to_owned(),
        uid: uid.to_owned(),
    }
}

fn spec() -> TokenSpec {
    TokenSpec {
        namespace: "a".to_owned(),
        account: reference("robot", "u1"),
        pod: Some(reference("web", "p1")),
        node: Some(reference("n1", "m1")),
        issued_at: 100,
        expires_at: 200,
        id: "j".to_owned(),
        ..TokenSpec::default()
    }
}

const ALL: [(&str, &str, &str); 2] = [("sa", "a/robot", "u1"), ("pod", "a/web", "p1")];

#[test]
fn a_token_names_its_account_and_its_pod() {
    let (_dir, tokens) = tokens();
    let token = tokens.issue(&spec()).expect("issued");
    let bearer = tokens
        .authenticate(&token, &[], 150, &World(ALL.to_vec()))
        .expect("ours");
    assert_eq!(bearer.user.name, "system:serviceaccount:a:robot");
    assert_eq!(bearer.user.uid, "u1");
    assert_eq!(bearer.audiences, [ISSUER]);
    assert!(
        bearer
            .user
            .extra
            .contains(&(POD_NAME.to_owned(), vec!["web".to_owned()]))
    );
    assert!(
        bearer
            .user
            .extra
            .contains(&(CREDENTIAL_ID.to_owned(), vec!["JTI=j".to_owned()]))
    );
}

#[test]
fn a_token_dies_with_its_time_its_account_and_its_pod() {
    let (_dir, tokens) = tokens();
    let token = tokens.issue(&spec()).expect("issued");
    let why = |now: i64, world: &[(&'static str, &'static str, &'static str)]| {
        let answer = tokens.authenticate(&token, &[], now, &World(world.to_vec()));
        answer.expect_err("refused").to_string()
    };
    // Clocks may differ by a minute.
    let all = World(ALL.to_vec());
    for now in [40, 260] {
        assert!(tokens.authenticate(&token, &[], now, &all).is_ok(), "{now}");
    }
    assert_eq!(why(39, &ALL), "service account token is not valid yet");
    assert_eq!(why(261, &ALL), "service account token has expired");
    let pod = ALL[1];
    assert_eq!(why(150, &[pod]), r#"serviceaccounts "robot" not found"#);
    assert_eq!(
        why(150, &[("sa", "a/robot", "u2"), pod]),
        "service account UID (u2) does not match claim (u1)"
    );
    assert_eq!(
        why(150, &[("sa", "a/robot", "u1@89"), pod]),
        "service account a/robot has been deleted"
    );
    let gone = "service account token has been invalidated";
    assert_eq!(why(150, &[ALL[0]]), gone);
    assert_eq!(why(150, &[ALL[0], ("pod", "a/web", "p1@89")]), gone);
    assert_eq!(
        why(150, &[ALL[0], ("pod", "a/web", "p2")]),
        "pod UID (p2) does not match service account pod ref claim (p1)"
    );
}

#[test]
fn a_token_bound_to_a_node_or_a_secret_dies_with_it() {
    let (_dir, tokens) = tokens();
    let of_node = TokenSpec {
        pod: None,
        ..spec()
    };
    let of_secret = TokenSpec {
        pod: None,
        node: None,
        secret: Some(reference("s", "s1")),
        ..spec()
    };
    for (spec, there, anew, words) in [
        (
            of_node,
            ("node", "n1", "m1"),
            ("node", "n1", "m2"),
            "node UID (m2) does not match service account node ref claim (m1)",
        ),
        (
            of_secret,
            ("secret", "a/s", "s1"),
            ("secret", "a/s", "s2"),
            "secret UID (s2) does not match service account secret ref claim (s1)",
        ),
    ] {
        let token = tokens.issue(&spec).expect("issued");
        let ask = |more: &[(&'static str, &'static str, &'static str)]| {
            let world = [&[ALL[0]], more].concat();
            tokens
                .authenticate(&token, &[], 150, &World(world))
                .map_err(|error| error.to_string())
        };
        assert!(ask(&[there]).is_ok());
        assert_eq!(
            ask(&[]),
            Err("service account token has been invalidated".to_owned())
        );
        assert_eq!(ask(&[anew]), Err(words.to_owned()));
    }
}

#[test]
fn a_token_of_extended_life_tells_when_it_is_stale() {
    let (_dir, tokens) = tokens();
    let token = tokens
        .issue(&TokenSpec {
            warn_after: Some(120),
            ..spec()
        })
        .expect("issued");
    let stale = |now| {
        let bearer = tokens.authenticate(&token, &[], now, &World(ALL.to_vec()));
        bearer.expect("good").stale
    };
    assert_eq!((stale(120), stale(150)), (None, Some(30)));
}

#[test]
fn a_token_of_the_older_kind_lives_as_long_as_its_secret() {
    let (_dir, tokens) = tokens();
    let account = reference("robot", "u1");
    let token = tokens.issue_legacy("a", &account, "old").expect("issued");
    let held: &'static str = Box::leak(token.clone().into_boxed_str());
    let there = [ALL[0], ("secret", "a/old", "s1"), ("token", "a/old", held)];
    let ask = |world: &[(&'static str, &'static str, &'static str)]| {
        let answer = tokens.authenticate(&token, &[], i64::MAX / 2, &World(world.to_vec()));
        answer.map_err(|error| error.to_string())
    };
    let bearer = ask(&there).expect("good for ever");
    let used = bearer.legacy.expect("of the older kind");
    assert_eq!(
        (&*bearer.user.name, used.unasked),
        ("system:serviceaccount:a:robot", false)
    );
    let listed = [&there[..], &[("lists", "robot", "old")]].concat();
    assert!(ask(&listed).expect("good").legacy.expect("older").unasked);
    assert_eq!(
        ask(&there[..1]),
        Err("Token has been invalidated".to_owned())
    );
    assert_eq!(
        ask(&there[..2]),
        Err("Token does not match server's copy".to_owned())
    );
    assert_eq!(
        ask(&there[1..]),
        Err(r#"serviceaccounts "robot" not found"#.to_owned())
    );
    let marked = [&there[..], &[("invalid", "a/old", "2026-01-01")]].concat();
    let why = ask(&marked).expect_err("marked");
    assert!(why.starts_with(
        "the token in secret a/old for service account a/robot has been marked invalid."
    ));
    let vault = tokens.authenticate(&token, &["vault".to_owned()], 1, &World(there.to_vec()));
    assert_eq!(
        vault.expect_err("for the API server only").to_string(),
        format!(r#"token audiences ["{ISSUER}"] is invalid for the target audiences ["vault"]"#)
    );
}

#[test]
fn a_token_for_another_audience_opens_nothing_here() {
    let (_dir, tokens) = tokens();
    let vault = vec!["vault".to_owned()];
    let token = tokens
        .issue(&TokenSpec {
            audiences: vault.clone(),
            ..spec()
        })
        .expect("issued");
    let all = World(ALL.to_vec());
    assert!(matches!(
        tokens.authenticate(&token, &[], 150, &all),
        Err(TokenError::Audience { .. })
    ));
    let bearer = tokens
        .authenticate(&token, &vault, 150, &all)
        .expect("for vault");
    assert_eq!(bearer.audiences, vault);
}

#[test]
fn a_token_of_another_cluster_is_refused() {
    let (_dir, tokens) = tokens();
    let (_other, others) = self::tokens();
    let all = World(ALL.to_vec());
    for spec in [spec(), spec()] {
        let token = others.issue(&spec).expect("issued");
        assert!(tokens.authenticate(&token, &[], 150, &all).is_err());
    }
    let other_issuer = tokens
        .clone()
        .with_issuers(vec!["https://other".to_owned()], Vec::new());
    let token = other_issuer.issue(&spec()).expect("issued");
    for foreign in [&*token, "", "a.b", "a.b.c", "a.b.c.d", "{}"] {
        assert!(
            matches!(
                tokens.authenticate(foreign, &[], 150, &all),
                Err(TokenError::Foreign)
            ),
            "{foreign}"
        );
    }
}

#[test]
fn a_claim_that_contradicts_another_is_refused_although_it_is_signed() {
    let (_dir, tokens) = tokens();
    let mut claims = serde_json::json!({
        "aud": [ISSUER], "exp": 200, "iat": 100, "nbf": 100, "iss": ISSUER,
        "sub": "system:serviceaccount:kube-system:admin",
        "kubernetes.io": {"namespace": "a", "serviceaccount": {"name": "robot", "uid": "u1"}}
    });
    let all = World(ALL.to_vec());
    let token = tokens.keys().signing().sign(&claims).expect("signed");
    assert!(tokens.authenticate(&token, &[], 150, &all).is_err());
    claims["sub"] = "system:serviceaccount:a:robot".into();
    let token = tokens.keys().signing().sign(&claims).expect("signed");
    assert!(tokens.authenticate(&token, &[], 150, &all).is_ok());
}
