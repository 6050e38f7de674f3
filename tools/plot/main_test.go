package main

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func TestDraw(t *testing.T) {
	p := Plot{Name: "open-latency", Title: "Latency", X: Axis{Label: "ms", Log: true}, Y: Axis{Label: "%"},
		Lines: []Line{{Name: "berth", Points: [][2]float64{{0, 0}, {1, 10}, {10, 50}, {100, 99}}},
			{Name: "peer", Points: [][2]float64{{1, 5}, {10, 40}}}}}
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

func TestLegendIsNextToThePlot(t *testing.T) {
	p := Plot{Name: "x", Lines: []Line{{Name: "first", Points: [][2]float64{{0, 10}, {60, 5}}}}}
	alone := drawn(t, p)
	if strings.Contains(alone, "first") {
		t.Error("a line that is alone has a legend")
	}
	p.Lines = append(p.Lines, Line{Name: "second", Points: [][2]float64{{0, 1}, {60, 5}}})
	both := drawn(t, p)
	if end, legend := at(t, both, "60"), at(t, both, "second"); legend < end+20 {
		t.Errorf("the axis ends at %v, the legend is at %v: want it beside the plot", end, legend)
	}
	// Two digits are 11 points wide, and half as much again in a font that is wide.
	if end, edge := at(t, alone, "60"), float64(width); end > edge-17 {
		t.Errorf("the last label is at %v of %v: it is cut", end, edge)
	}
}

// at is where a text of an image begins, from the left.
func at(t *testing.T, picture, text string) float64 {
	t.Helper()
	found := regexp.MustCompile(`<text x="([0-9.]+)"[^>]*>` + text + `</text>`).FindStringSubmatch(picture)
	if found == nil {
		t.Fatalf("no text %q", text)
	}
	x, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestAxes(t *testing.T) {
	for _, c := range []struct {
		name string
		plot Plot
		// with and without are labels that the image must have and must not have.
		with, without []string
	}{
		{"all zero", Plot{Lines: []Line{{Points: [][2]float64{{10, 0}, {90, 0}}}}},
			[]string{"0", "1", "10", "90"}, []string{"-1"}},
		{"one value", Plot{Lines: []Line{{Points: [][2]float64{{0, 20}}}}}, []string{"0"}, []string{"-1", "19"}},
		{"one value, logarithm", Plot{X: Axis{Log: true}, Lines: []Line{{Points: [][2]float64{{1, 5}}}}},
			[]string{"1", "10"}, []string{"-1"}},
		{"thousands", Plot{Lines: []Line{{Points: [][2]float64{{0.1, 0}, {5000, 12000}}}}},
			[]string{"0", "5,000", "10,000"}, []string{"5000"}},
		{"above zero", Plot{Lines: []Line{{Points: [][2]float64{{1, 1400}, {2, 1500}, {4, 1450}}}}},
			[]string{"0", "1", "2", "4"}, []string{"1,400", "3"}},
	} {
		c.plot.Name = "x"
		picture := drawn(t, c.plot)
		for _, label := range c.with {
			if !strings.Contains(picture, ">"+label+"</text>") {
				t.Errorf("%s: no label %s", c.name, label)
			}
		}
		for _, label := range c.without {
			if strings.Contains(picture, ">"+label+"</text>") {
				t.Errorf("%s: a label %s", c.name, label)
			}
		}
	}
}

func TestAxisThatBeginsCloseToZeroBeginsThere(t *testing.T) {
	var points [][2]float64
	for i := range 100 {
		points = append(points, [2]float64{0.01 + float64(i)/5, 1})
	}
	picture := drawn(t, Plot{Name: "x", Lines: []Line{{Points: points}}})
	if zeros := strings.Count(picture, ">0</text>"); zeros != 2 {
		t.Errorf("%d zeros, want one on each axis", zeros)
	}
}

func TestNumber(t *testing.T) {
	for value, want := range map[float64]string{
		0: "0", 25: "25", 999: "999", 5000: "5,000", 1e6: "1,000,000", 0.1 + 0.2: "0.3", -1234.5: "-1,234.5", -100: "-100",
	} {
		if got := number(value); got != want {
			t.Errorf("%v: %s, want %s", value, got, want)
		}
	}
}

// drawn is an image's source.
func drawn(t *testing.T, p Plot) string {
	t.Helper()
	picture, err := draw(p)
	if err != nil {
		t.Fatal(err)
	}
	return string(picture)
}

func TestWhatCannotBeDrawnIsNamed(t *testing.T) {
	for name, p := range map[string]Plot{
		"name":                {Name: "../x", Lines: []Line{{Points: [][2]float64{{1, 1}}}}},
		"no line has a point": {Name: "x", X: Axis{Log: true}, Lines: []Line{{Points: [][2]float64{{0, 1}}}}},
		"lines: no line has":  {Name: "x"},
	} {
		if _, err := draw(p); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%+v: %v, want %q", p, err, name)
		}
	}
}
