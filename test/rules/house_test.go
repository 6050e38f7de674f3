package rules_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/berth-scheduler/berth/test/rules"
)

// TestHouse prints the measures of the shipped code and holds each to its bound.
func TestHouse(t *testing.T) {
	repo, err := rules.Load(os.DirFS(top))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range rules.House(repo) {
		t.Log(m)
		if !m.Holds() {
			t.Errorf("%s: %.1f, bound %g", m.Name, m.Value, m.Bound())
		}
		if m.Paid() {
			t.Errorf("test/rules/debts.go: %s: the standard %g is met, so remove the debt %g", m.Name, m.Standard, m.Debt)
		}
	}
}

// TestHouseMeasures measures code of which the figures are known.
func TestHouseMeasures(t *testing.T) {
	source := `// Package x is planted. It is told what is new.
package x

type y struct{ n int }

// Z returns nothing.
type Z struct {
	y
	N int
}

func (z *Z) F(a, b bool) int {
	a, b, c := b, a, 1
	if a && b || c > 1 {
		return 1
	}
	switch {
	case a:
		return 2
	default:
		return 3
	}
}
`
	got := houseOf(t, fstest.MapFS{"pkg/x/x.go": {Data: []byte(source)}})
	for name, want := range map[string]float64{
		"functions: lines, longest":                       10,
		"functions: cyclomatic complexity, highest":       5,
		"assignments wider than two, per 1,000 functions": 1000,
		"embedded unexported structs, per 100 structs":    50,
		"methods of one type":                             1,
		"lines of one package":                            23,
		"exported names of one package":                   1,
		"exported names with a comment, per 100":          50,
		`"told" and "tells", per 1,000 comment lines`:     500,
		`"returns", per 1,000 comment lines`:              500,
	} {
		if m, known := got[name]; !known || m.Value != want {
			t.Errorf("%s: %v, want %v", name, m.Value, want)
		}
	}
}

// TestDependenciesThatRunBackUp plants a package in which each file uses the next one and some use the one before.
func TestDependenciesThatRunBackUp(t *testing.T) {
	const files = 10
	for _, test := range []struct {
		name  string
		back  func(i int) bool
		share float64
	}{
		{"chain", func(int) bool { return false }, 0},
		{"one circle of two", func(i int) bool { return i == 3 }, 10},
		{"circles everywhere", func(int) bool { return true }, 50},
	} {
		t.Run(test.name, func(t *testing.T) {
			top := fstest.MapFS{}
			for i := range files {
				var b strings.Builder
				fmt.Fprintf(&b, "package x\n\nfunc f%d() {\n", i)
				if i+1 < files {
					fmt.Fprintf(&b, "\tf%d()\n", i+1)
				}
				if i > 0 && test.back(i) {
					fmt.Fprintf(&b, "\tf%d()\n", i-1)
				}
				b.WriteString("}\n")
				top[fmt.Sprintf("pkg/x/x%d.go", i)] = &fstest.MapFile{Data: []byte(b.String())}
			}
			if m := houseOf(t, top)["arrows of one package that run back up, per 100"]; m.Value != test.share {
				t.Errorf("%v of 100 arrows run back up, want %v", m.Value, test.share)
			}
		})
	}
}

func TestMeasureHolds(t *testing.T) {
	for _, test := range []struct {
		m           rules.Measure
		holds, paid bool
	}{
		{rules.Measure{Value: 3, Standard: 2}, false, false},
		{rules.Measure{Value: 2, Standard: 2}, true, false},
		{rules.Measure{Value: 3, Standard: 2, Debt: 3}, true, false},
		{rules.Measure{Value: 4, Standard: 2, Debt: 3}, false, false},
		{rules.Measure{Value: 2, Standard: 2, Debt: 3}, true, true},
		{rules.Measure{Value: 13, Standard: 18, AtLeast: true}, false, false},
		{rules.Measure{Value: 13, Standard: 18, AtLeast: true, Debt: 13}, true, false},
		{rules.Measure{Value: 18, Standard: 18, AtLeast: true, Debt: 13}, true, true},
	} {
		if test.m.Holds() != test.holds || test.m.Paid() != test.paid {
			t.Errorf("%+v: holds %v, paid %v", test.m, test.m.Holds(), test.m.Paid())
		}
	}
}

func houseOf(t *testing.T, top fstest.MapFS) map[string]rules.Measure {
	t.Helper()
	repo, err := rules.Load(top)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]rules.Measure{}
	for _, m := range rules.House(repo) {
		all[m.Name] = m
	}
	return all
}
