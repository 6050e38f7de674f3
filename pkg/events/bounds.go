package events

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of a decision, so that it fits into a message whatever pod it is about. A pod can name as many resources
// as fit into the 1.5 MiB of an object. Each resource that no node has is a separate reason, and also appears in
// the message.
const (
	// MaxText is the maximum number of bytes of Message. A longer text is cut, and ends with the number of bytes
	// left out.
	MaxText = 16 << 10
	// maxReasons bounds the total bytes of the texts of Reasons, maxReason those of one of them.
	maxReasons = 64 << 10
	maxReason  = 1 << 10
	// maxEvidence bounds the bytes of the evidence. Larger evidence loses its basis, and is left out if that is not
	// enough.
	maxEvidence = 256 << 10
	// maxWord bounds the bytes of a text that names something, such as an owner: the API server bounds neither the
	// UID of an owner nor the name of a scheduler. maxWords bounds the total bytes of a list of them.
	maxWord  = 1 << 10
	maxWords = 16 << 10
)

const (
	// leftOutMark and leftOutEnd enclose the number of bytes that were left out of a text.
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

// Kept returns the kept part of a Message, and whether the rest was left out.
func Kept(message string) (kept string, cut bool) {
	at := strings.LastIndex(message, leftOutMark)
	if at < 0 || !strings.HasSuffix(message, leftOutEnd) || len(message) <= MaxText-2*leftOutRoom {
		return message, false
	}
	return message[:at], true
}

// ShortReasons returns reasons as a record stores them.
func ShortReasons(reasons map[string]int32) map[string]int32 {
	return decodeReasons(encodeReasons(reasons))
}

// word returns a text that names something, as a record stores it.
func word(text string) string { return shorten(Valid(text), maxWord) }

// words returns as many of the first texts of a list as a record has room for.
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

// within returns how many of the first texts fit into room together.
func within(texts []string, room int) int {
	for i, text := range texts {
		if room -= min(len(text), maxReason); room < 0 {
			return i
		}
	}
	return len(texts)
}
