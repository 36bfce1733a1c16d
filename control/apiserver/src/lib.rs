//! Request chain, generic resource handlers, watch cache, discovery, OpenAPI.
