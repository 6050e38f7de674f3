package events

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of a decision, so that it fits a message whatever pod it is about. A pod names as many resources as fit the
// 1.5 MiB of an object, and each that no node has is a reason of its own, in the message too.
const (
	// MaxText is the most bytes of Message. A longer one is cut, and ends in how much was left out.
	MaxText = 16 << 10
	// maxReasons is the most bytes that the texts of Reasons have together, maxReason what one of them has at most.
	maxReasons = 64 << 10
	maxReason  = 1 << 10
	// maxEvidence is the most bytes of the evidence. A larger one loses its basis, and is left out if that is not enough.
	maxEvidence = 256 << 10
	// maxWord is the most bytes of a text that names something, such as an owner: the API server bounds no UID of an
	// owner and no name of a scheduler. maxWords is what a list of them has together.
	maxWord  = 1 << 10
	maxWords = 16 << 10
)

const (
	// leftOutMark and leftOutEnd stand around the number of bytes that were left out of a text.
	leftOutMark = "… ("
	leftOutEnd  = " more bytes left out)"
	// leftOutRoom is room for all three.
	leftOutRoom = 64
)

// shorten cuts a text to at most limit bytes, the number of bytes left out included.
func shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := limit - leftOutRoom
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + leftOutMark + strconv.Itoa(len(text)-end) + leftOutEnd
}

// Kept returns what was kept of a Message, and whether the rest was left out.
func Kept(message string) (kept string, cut bool) {
	at := strings.LastIndex(message, leftOutMark)
	if at < 0 || !strings.HasSuffix(message, leftOutEnd) || len(message) <= MaxText-2*leftOutRoom {
		return message, false
	}
	return message[:at], true
}

// ShortReasons returns reasons as a record has them.
func ShortReasons(reasons map[string]int32) map[string]int32 {
	return decodeReasons(encodeReasons(reasons))
}

// word is a text that names something, as a record has it.
func word(text string) string { return shorten(valid(text), maxWord) }

// words are those of a list that a record has room for, the first ones.
func words(list []string) []string {
	list = list[:within(list, maxWords)]
	if len(list) == 0 {
		return nil
	}
	out := make([]string, len(list))
	for i, text := range list {
		out[i] = word(text)
	}
	return out
}

// within returns how many of the texts, in their order, have room together.
func within(texts []string, room int) int {
	for i, text := range texts {
		if room -= min(len(text), maxReason); room < 0 {
			return i
		}
	}
	return len(texts)
}
