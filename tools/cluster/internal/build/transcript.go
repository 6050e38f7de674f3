package build

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
)

// transcript keeps the output of the Go command and counts its downloads, so that a heartbeat can distinguish
// fetching from compiling.
type transcript struct {
	mu struct {
		sync.Mutex
		all     bytes.Buffer
		fetched int
	}
}

var downloadMark = []byte("go: downloading ")

// Write implements io.Writer. The Go command writes whole lines.
func (t *transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.fetched += bytes.Count(p, downloadMark)
	return t.mu.all.Write(p)
}

// downloads is the part of a heartbeat line about modules, empty when none
// had to be fetched.
func (t *transcript) downloads() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.fetched == 0 {
		return ""
	}
	return fmt.Sprintf(", %d modules downloaded", t.mu.fetched)
}

// text returns everything but the download lines.
func (t *transcript) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var kept strings.Builder
	for line := range bytes.Lines(t.mu.all.Bytes()) {
		if !bytes.HasPrefix(line, downloadMark) {
			kept.Write(line)
		}
	}
	return kept.String()
}
