package frame

import (
	"hash/fnv"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
)

// The token before the last in the subject of a frame of several records is Many with a hash of each object that these
// are about, in increasing order: three characters for 18 bits. Servers keep the subjects of a stream in memory, so
// that a search for an object reads no more than the frames that have it, and one in some thousand others. In return a
// frame costs a server some 400 bytes of memory (MinRecords).
const (
	hashBits  = 18
	hashChars = 3
	charBits  = 6
	chars     = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
)

// hash returns the characters for an object, by its UID as it is in the header.
func hash(uid string) (text [hashChars]byte) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(uid)) // never fails
	sum := h.Sum32()
	sum ^= sum >> hashBits
	for i := range text {
		text[i] = chars[sum>>(charBits*i)&(1<<charBits-1)]
	}
	return text
}

// objects returns the hashes of the objects of some messages.
func objects(msgs []eventlog.Message) string {
	hashes := make([]string, 0, len(msgs))
	for i := range msgs {
		if uid := msgs[i].Header.Get(eventlog.HeaderUID); uid != "" {
			text := hash(uid)
			hashes = append(hashes, string(text[:]))
		}
	}
	slices.Sort(hashes)
	return strings.Join(slices.Compact(hashes), "")
}

// MayHave reports whether a message with a subject is a frame of several records that may have one about an object; of
// any object if uid is empty.
func MayHave(subject, uid string) bool {
	end := strings.LastIndexByte(subject, '.')
	if end < 0 {
		return false
	}
	token := subject[strings.LastIndexByte(subject[:end], '.')+1 : end]
	list, many := strings.CutPrefix(token, Many)
	if !many || uid == "" {
		return many
	}
	want := hash(eventlog.EscapeHeader(uid))
	for ; len(list) >= hashChars; list = list[hashChars:] {
		if list[:hashChars] == string(want[:]) {
			return true
		}
	}
	return false
}
