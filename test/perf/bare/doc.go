// Package bare uses NATS JetStream without any of Berth's code: messages of so many bytes are stored, and a reader
// counts their bytes. What Berth's log costs is compared with this, the least that the same bytes can cost.
//
// Start reading at Log.
package bare
