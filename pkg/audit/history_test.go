package audit

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/pkg/audit/recording"
)

func TestAHistoryComesBackAsWritten(t *testing.T) {
	s := begin(t).node("n", "1", nil).pod("a", "600m").pod("b", "600m").place("n", "a").place("n", "b")
	var file bytes.Buffer
	w, err := recording.NewWriter(&file, 0, recording.Header{Cluster: "c"})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range append(s.records, s.end()) {
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	whole := file.String()
	report, err := Replay(&file)
	if err != nil || report.Violations() != 1 || !report.Complete {
		t.Errorf("report %+v, error %v: want the one violation, and complete", report, err)
	}
	// A recorder that was killed leaves an incomplete line.
	report, err = Replay(strings.NewReader(whole[:len(whole)-10]))
	if err != nil || report.Violations() != 1 || report.Complete {
		t.Errorf("report %+v, error %v: want the one violation, and not complete", report, err)
	}
}

func TestAFullHistoryTakesItsEndAlone(t *testing.T) {
	var file bytes.Buffer
	w, err := recording.NewWriter(&file, 200, recording.Header{})
	if err != nil {
		t.Fatal(err)
	}
	mark := recording.Record{Mark: &recording.Mark{Ledger: 1, Objects: 1, Until: 1}}
	for range 10 {
		err = w.Write(mark)
	}
	if !errors.Is(err, recording.ErrFull) {
		t.Errorf("error %v, want ErrFull", err)
	}
	if err := errors.Join(w.Write(recording.Record{End: &recording.End{Reason: "full"}}), w.Flush()); err != nil {
		t.Error(err)
	}
	if report, err := Replay(&file); err != nil || report.Complete {
		t.Errorf("report %+v, error %v", report, err)
	}
}

func TestOtherFilesAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"empty":         "",
		"not JSON":      "hello\n",
		"no header":     `{"mark":{}}` + "\n",
		"other version": `{"header":{"format":"berth-history","version":2}}` + "\n",
		"other format":  `{"header":{"format":"x","version":1}}` + "\n",
		"two headers":   strings.Repeat(`{"header":{"format":"berth-history","version":1}}`+"\n", 2),
		"unknown":       `{"header":{"format":"berth-history","version":1}}` + "\n{}\n",
		"no first pod": `{"header":{"format":"berth-history","version":1}}` + "\n" +
			`{"object":{"kind":"pod","uid":"u","rv":3,"gone":true}}` + "\n",
	} {
		if _, err := Replay(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), "line ") {
			t.Errorf("%s: error %v, want one that names the line", name, err)
		}
	}
}

// FuzzReplay checks that replaying any history ends in a report or in an error.
func FuzzReplay(f *testing.F) {
	s := begin(f).node("n", "1", nil).pod("a", "600m").pod("b", "600m").place("n", "a").place("n", "b")
	var file bytes.Buffer
	w, err := recording.NewWriter(&file, 0, recording.Header{Cluster: "c"})
	if err != nil {
		f.Fatal(err)
	}
	for _, r := range append(s.records, s.end()) {
		if err := w.Write(r); err != nil {
			f.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		f.Fatal(err)
	}
	f.Add(file.Bytes())
	header, _, _ := strings.Cut(file.String(), "\n")
	f.Add([]byte(header + "\n{\"object\":{\"kind\":\"pod\",\"uid\":\"a\",\"rv\":1}}\n{\"mark\":{\"ledger\":1}}\n"))
	f.Fuzz(func(_ *testing.T, data []byte) { _, _ = Replay(bytes.NewReader(data)) })
}
