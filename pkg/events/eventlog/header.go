package eventlog

import (
	"encoding/json"
	"slices"
)

// Header is the metadata that travels with the payload, so that a reader can route and order records without
// decoding them. Keys are lower case (NATS headers are case-sensitive). Each key occurs once, which Set and
// NewHeader ensure; the order of the fields has no meaning. It is a slice because it is small: building a map would
// cost a reader more than all its lookups.
type Header []HeaderField

// HeaderField is one line of a Header.
type HeaderField struct{ Key, Value string }

// NewHeader returns the header with these fields.
func NewHeader(fields map[string]string) Header {
	h := make(Header, 0, len(fields))
	for key, value := range fields {
		h = append(h, HeaderField{key, value})
	}
	return h
}

// Lookup returns the value of a key; ok is false if the header has none.
func (h Header) Lookup(key string) (value string, ok bool) {
	for i := range h {
		if h[i].Key == key {
			return h[i].Value, true
		}
	}
	return "", false
}

// Get returns the value of a key, empty if there is none.
func (h Header) Get(key string) string {
	value, _ := h.Lookup(key)
	return value
}

// Set replaces or adds the value of a key. It may change the array that copies of the header share.
func (h *Header) Set(key, value string) {
	for i := range *h {
		if (*h)[i].Key == key {
			(*h)[i].Value = value
			return
		}
	}
	*h = append(*h, HeaderField{key, value})
}

// Equal reports whether both have the same keys with the same values.
func (h Header) Equal(other Header) bool { return len(h) == len(other) && h.SubsetOf(other) }

// SubsetOf reports whether other has every key of h with the same value.
func (h Header) SubsetOf(other Header) bool {
	return !slices.ContainsFunc(h, func(f HeaderField) bool {
		value, ok := other.Lookup(f.Key)
		return !ok || value != f.Value
	})
}

// MarshalJSON writes the header as one object.
func (h Header) MarshalJSON() ([]byte, error) {
	fields := make(map[string]string, len(h))
	for _, f := range h {
		fields[f.Key] = f.Value
	}
	return json.Marshal(fields)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (h *Header) UnmarshalJSON(data []byte) error {
	var fields map[string]string
	if err := json.Unmarshal(data, &fields); err != nil {
		return err
	}
	*h = nil
	if len(fields) > 0 {
		*h = NewHeader(fields)
	}
	return nil
}

// Keys of Header. All lower case: NATS compares header keys byte by byte, and the trace
// propagators of other languages look for lower case.
const (
	// HeaderSchema is the SchemaVersion of the message. Always present.
	HeaderSchema = "schema"
	// HeaderKind is a Kind in facts and a DecisionKind in decisions.
	HeaderKind = "kind"
	// HeaderOp is the name of an Op (facts).
	HeaderOp = "op"
	// HeaderUID, HeaderNamespace and HeaderName identify the object or the pod.
	HeaderUID       = "uid"
	HeaderNamespace = "namespace"
	HeaderName      = "name"
	// HeaderResourceVersion, HeaderProgress and HeaderEpoch are decimal numbers (facts).
	HeaderResourceVersion = "resourceversion"
	HeaderProgress        = "progress"
	HeaderEpoch           = "epoch"
	// HeaderCause is the source of a fact.
	HeaderCause = "cause"
	// HeaderPosition is the sequence for which a fenced append of a fact was meant. The log writes it, and a reader
	// gets it only with a record that is elsewhere: NATS lets a client that may read a stream request delivery of a
	// record to any subject, also to one of the stream, which then stores it again.
	HeaderPosition = "position"
	// HeaderTraceParent is a W3C traceparent.
	HeaderTraceParent = "traceparent"
)
