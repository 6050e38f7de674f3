// Package apitest is the API server in memory, as far as a reflector can see it: lists,
// watches (streaming lists and bookmarks included) and single namespaces, over HTTP, with
// resourceVersions that behave as the real ones do. For tests of the queue's intake.
//
// Start reading at Server. Faults are switches: Compact, Break, Bookmark.
package apitest
