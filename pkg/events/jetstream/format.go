package jetstream

import (
	"cmp"
	"fmt"
	"maps"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
)

// Format is how appends store records in a stream. It is in the stream's metadata, and each process uses the one that
// it finds when it opens the log. It does not show what is in the stream: a stream of frames has single records from
// before it was switched, and the other way round. Readers read both.
type Format string

const (
	// FormatFrames is one message for the records of an append.
	FormatFrames Format = "frames"
	// FormatRecords is one message for each record. Streams without a format have it, as all streams of versions before
	// frames do; those versions read nothing else.
	FormatRecords Format = "records"
)

// formats are those that this version knows.
var formats = map[Format]bool{FormatFrames: true, FormatRecords: true}

// metadataFormat is the key of a stream's metadata that has its format.
const metadataFormat = "berth.format"

// canFrame reports whether records of a stream may be in frames. The ledger's history has many changes in each record
// already.
func canFrame(name eventlog.Stream) bool { return name == eventlog.Facts || name == eventlog.Decisions }

// formatOf returns the format of a stream.
func formatOf(have jetstream.StreamConfig) Format {
	return cmp.Or(Format(have.Metadata[metadataFormat]), FormatRecords)
}

// setFormat sets the format of a stream, unless it is empty. It leaves the map of the existing configuration as it is,
// and returns an error if the stream has a format of a later version: this one would write what the others do not
// expect.
func setFormat(config *jetstream.StreamConfig, name eventlog.Stream, format Format) error {
	if have := formatOf(*config); !formats[have] {
		return fmt.Errorf("its format is %q (metadata %s), want %s or %s: a later version of berth has switched it",
			string(have), metadataFormat, FormatFrames, FormatRecords)
	}
	if format == "" || !canFrame(name) || format == formatOf(*config) {
		return nil
	}
	metadata := maps.Clone(config.Metadata)
	if metadata == nil {
		metadata = map[string]string{}
	}
	metadata[metadataFormat] = string(format)
	config.Metadata = metadata
	return nil
}

// Frames implements eventlog.Log.
func (l *Log) Frames(s eventlog.Stream) int {
	if !l.framed[s] {
		return 0
	}
	return l.least
}
