//! Which objects of a resource to follow.

/// Which objects of a resource to follow, and how much of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only this namespace.
    pub namespace: Option<String>,
    /// Only objects whose labels this selects.
    pub labels: Option<String>,
    /// Only objects whose fields this selects.
    pub fields: Option<String>,
    /// Ask the server for metadata alone (`PartialObjectMetadata`): fits views
    /// such as [`Metadata`](crate::Metadata) that read nothing else.
    pub metadata_only: bool,
}

// === impl Selection ===

impl Selection {
    /// Selects all objects.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Only this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Only objects that this label selector selects.
    #[must_use]
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.labels = Some(selector.into());
        self
    }

    /// Only objects that this field selector selects.
    #[must_use]
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.fields = Some(selector.into());
        self
    }

    /// Metadata alone.
    #[must_use]
    pub const fn metadata_only(mut self) -> Self {
        self.metadata_only = true;
        self
    }

    /// The `Accept` header of a list.
    pub(crate) const fn accept_list(&self) -> &'static str {
        if self.metadata_only {
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
        } else {
            "application/json"
        }
    }

    /// The `Accept` header of a watch.
    pub(super) const fn accept_watch(&self) -> &'static str {
        if self.metadata_only {
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
        } else {
            "application/json"
        }
    }
}
