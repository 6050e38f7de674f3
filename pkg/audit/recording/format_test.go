package recording

import (
	"io"
	"strings"
	"testing"
)

func TestALineWithoutEndIsRefused(t *testing.T) {
	err := Read(io.LimitReader(endless{}, 10*maxLine), func(Record) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "line 1: want at most") {
		t.Errorf("error %v, want one about the line's length", err)
	}
}

// endless is a line without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}
