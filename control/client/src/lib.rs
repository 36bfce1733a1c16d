//! Typed client, lean views, watchers, caches, work queue.
