package frame

import (
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"
	"slices"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
)

// HeaderObjects is the header of a frame of several records with the hashes of the objects that they are about, in
// increasing order: two bytes each, in base64. A hash of 16 bits finds some frames too many, one for some thousand
// records that are searched, and costs three bytes a record.
const HeaderObjects = "objects"

const hashBytes = 2

// hash returns the hash of the header of an object's UID.
func hash(uid string) uint16 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(uid)) // never fails
	sum := h.Sum32()
	return uint16(sum>>16) ^ uint16(sum)
}

// Objects returns the value of HeaderObjects for some messages.
func Objects(msgs []eventlog.Message) string {
	hashes := make([]uint16, 0, len(msgs))
	for i := range msgs {
		if uid := msgs[i].Header.Get(eventlog.HeaderUID); uid != "" {
			hashes = append(hashes, hash(uid))
		}
	}
	slices.Sort(hashes)
	hashes = slices.Compact(hashes)
	raw := make([]byte, 0, hashBytes*len(hashes))
	for _, h := range hashes {
		raw = binary.BigEndian.AppendUint16(raw, h)
	}
	return base64.RawStdEncoding.EncodeToString(raw)
}

// MayHave reports whether a frame with a value of HeaderObjects may have a record about an object. It is true for a
// value that cannot be read.
func MayHave(objects, uid string) bool {
	raw, err := base64.RawStdEncoding.DecodeString(objects)
	if err != nil || uid == "" {
		return true
	}
	want := hash(eventlog.EscapeHeader(uid))
	for ; len(raw) >= hashBytes; raw = raw[hashBytes:] {
		if binary.BigEndian.Uint16(raw) == want {
			return true
		}
	}
	return false
}
