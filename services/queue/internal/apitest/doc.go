// Package apitest is an in-memory API server with what a reflector uses: lists, watches (streaming lists and
// bookmarks included) and single namespaces, over HTTP, with resourceVersions that behave like the real ones. It is
// for tests of the queue's intake.
//
// Start reading at Server. Compact, Break, Down, GoBack and Bookmark inject faults and events.
package apitest
