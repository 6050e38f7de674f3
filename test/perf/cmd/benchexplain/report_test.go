package main

import (
	"strings"
	"testing"
	"time"
)

func TestReport(t *testing.T) {
	b := bench{options: options{pods: 1000}, atWork: []time.Duration{time.Second}}
	for range 10 {
		b.took = append(b.took, 100*time.Millisecond)
	}
	b.took[3] = time.Minute
	var text strings.Builder
	if err := b.report(&text); err != nil {
		t.Errorf("one of ten was slow: %v", err)
	}
	if want := "any more: median 100ms, nine of ten within 100ms, at most 1m0s\n"; !strings.Contains(text.String(), want) {
		t.Errorf("no %q in\n%s", want, text.String())
	}
	b.took[4] = time.Second
	if err := b.report(&text); err == nil || !strings.Contains(err.Error(), "nine of ten take up to 1s") {
		t.Errorf("two of ten were slow: %v", err)
	}
}
