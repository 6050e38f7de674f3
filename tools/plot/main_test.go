package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestDraw(t *testing.T) {
	p := Plot{Name: "open-latency", Title: "Latency", X: Axis{Label: "ms", Log: true}, Y: Axis{Label: "%"},
		Lines: []Line{{Name: "berth", Points: [][2]float64{{0, 0}, {1, 10}, {10, 50}, {100, 99}}}}}
	one, err := draw(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<svg", "Latency", "berth", "ms"} {
		if !strings.Contains(string(one), want) {
			t.Errorf("no %q in the picture", want)
		}
	}
	two, err := draw(p)
	if err != nil || !bytes.Equal(one, two) {
		t.Errorf("drawn again it is another picture (%v)", err)
	}
}

func TestWhatCannotBeDrawnIsNamed(t *testing.T) {
	for name, p := range map[string]Plot{
		"name":                {Name: "../x", Lines: []Line{{Points: [][2]float64{{1, 1}}}}},
		"none has a point":    {Name: "x", X: Axis{Log: true}, Lines: []Line{{Points: [][2]float64{{0, 1}}}}},
		"lines: none has a p": {Name: "x"},
	} {
		if _, err := draw(p); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%+v: %v, want %q", p, err, name)
		}
	}
}
