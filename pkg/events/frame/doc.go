// Package frame encodes several records of the log as one message, a frame: what a writer has at hand goes out
// together, and one message costs the log and its readers about the same whatever it carries. It is pure.
//
// The records of a frame share its sequence. A position in a stream is still a sequence, and readers hand over a frame
// as a whole (eventlog.Reader); where a single record must be named, its Index in the frame is added.
//
// The subject of a frame of several records has the tokens that the subjects of these share: a token in the middle that
// differs is "many", and the one before the last has a hash of each object that the records are about (MayHave), by
// which a search finds the frames without reading others. The first and the last token are the same in all records of
// a frame (Split), because the last token is what permissions and fences depend on: the kind of a decision, by which
// the log permits each service to write only certain decisions, and the epoch of a fact, by which a writer recognizes
// its own last record. A frame of one record has the subject of that record, and is found by it.
//
// Start reading at Split and Encode, then Decode. The format is the message Frame in eventspb/events.proto.
package frame
