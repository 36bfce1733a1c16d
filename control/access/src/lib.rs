//! Who may: authentication and authorisation decisions.
