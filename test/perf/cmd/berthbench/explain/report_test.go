package explain

import (
	"strings"
	"testing"
	"time"
)

func TestReport(t *testing.T) {
	m := measurement{options: options{pods: 1000}, atWork: []time.Duration{time.Second}}
	for range 10 {
		m.took = append(m.took, 100*time.Millisecond)
	}
	m.took[3] = time.Minute
	var text strings.Builder
	if err := m.report(&text); err != nil {
		t.Errorf("one of ten was slow: %v", err)
	}
	if want := "any more: median 100ms, nine of ten within 100ms, at most 1m0s\n"; !strings.Contains(text.String(), want) {
		t.Errorf("no %q in\n%s", want, text.String())
	}
	m.took[4] = time.Second
	if err := m.report(&text); err == nil || !strings.Contains(err.Error(), "nine of ten take up to 1s") {
		t.Errorf("two of ten were slow: %v", err)
	}
}
