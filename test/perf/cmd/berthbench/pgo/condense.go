package pgo

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/google/pprof/profile"
)

// frame is one position in a function, inlined or not.
type frame struct {
	function string
	// start is the function's first line, line the one that runs; the compiler uses their difference only.
	start, line int64
}

// edge is a call: from a line of one function to another function.
type edge struct {
	caller frame
	callee string
}

// Condense returns a profile with one sample for each call, in which the calls that together have the share keep of
// all weight are left. A sample's value is the call's weight as the compiler would compute it from p: how many of p's
// samples ended in the callee. The result depends on nothing but p's samples: functions and samples are sorted, and
// addresses, times, labels and the names of programs are left out.
//
// It is an error if p is no processor profile, has no samples, or lacks the first lines of functions, without which the
// compiler can place no call.
func Condense(p *profile.Profile, keep float64) (*profile.Profile, error) {
	at, err := valueIndex(p)
	if err != nil {
		return nil, err
	}
	weights := map[edge]int64{}
	starts := map[string]int64{}
	for _, s := range p.Sample {
		if err := addSample(weights, starts, s, s.Value[at]); err != nil {
			return nil, err
		}
	}
	edges := hottest(weights, keep)
	if len(edges) == 0 {
		return nil, errors.New("the profiles have no samples of calls")
	}
	b := builder{functions: map[string]*profile.Function{}, locations: map[frame]*profile.Location{}, starts: starts}
	b.out = &profile.Profile{SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}}}
	for _, e := range edges {
		b.add(e, weights[e])
	}
	return b.out, b.out.CheckValid()
}

// valueIndex returns which of a sample's values is its count.
func valueIndex(p *profile.Profile) (int, error) {
	at := slices.IndexFunc(p.SampleType, func(t *profile.ValueType) bool {
		return t.Type == "samples" && t.Unit == "count"
	})
	if at < 0 {
		return 0, errors.New("the profile has no counts of samples: want a processor profile")
	}
	return at, nil
}

// position is a frame and the instruction at which it is.
type position struct {
	frame
	address uint64
}

// addSample adds a sample's value to the calls at the end of its stack: once, however often a call recurs there from
// the same instruction to the same one.
func addSample(weights map[edge]int64, starts map[string]int64, s *profile.Sample, value int64) error {
	stack := frames(s)
	seen := make(map[[2]position]struct{}, len(stack))
	for i, f := range stack {
		if f.start == 0 {
			return fmt.Errorf("function %s has no first line: want profiles of programs of Go 1.20 or later", f.function)
		}
		starts[f.function] = f.start
		if i == 0 {
			continue
		}
		callee := stack[i-1]
		call := [2]position{f, callee}
		if _, twice := seen[call]; !twice && f != callee {
			seen[call] = struct{}{}
			weights[edge{caller: f.frame, callee: callee.function}] += value
		}
	}
	return nil
}

// counted is how many addresses of a sample's stack the compiler looks at. What called the innermost two says little
// about how often it did: the main loop of a program is on every stack, and runs once.
const counted = 2

// frames returns the end of a sample's stack, the innermost function first, with inlined functions as frames of their
// own.
func frames(s *profile.Sample) (out []position) {
	for _, location := range s.Location[:min(counted, len(s.Location))] {
		for _, line := range location.Line {
			if line.Function != nil {
				at := frame{line.Function.Name, line.Function.StartLine, line.Line}
				out = append(out, position{at, location.Address})
			}
		}
	}
	return out
}

// hottest returns the edges with the largest weights that together have the share keep of all weight, sorted by
// falling weight, and by name where that is equal.
func hottest(weights map[edge]int64, keep float64) []edge {
	var all int64
	edges := make([]edge, 0, len(weights))
	for e, w := range weights {
		all += w
		edges = append(edges, e)
	}
	slices.SortFunc(edges, func(a, b edge) int {
		return cmp.Or(cmp.Compare(weights[b], weights[a]), cmp.Compare(a.caller.function, b.caller.function),
			cmp.Compare(a.caller.line, b.caller.line), cmp.Compare(a.caller.start, b.caller.start),
			cmp.Compare(a.callee, b.callee))
	})
	var kept int64
	for i, e := range edges {
		if float64(kept) >= keep*float64(all) {
			return edges[:i]
		}
		kept += weights[e]
	}
	return edges
}

// builder builds a profile, with the numbers of functions and locations in the order of their first use.
type builder struct {
	out       *profile.Profile
	functions map[string]*profile.Function
	locations map[frame]*profile.Location
	starts    map[string]int64
}

// add adds a sample of two frames. The callee's has no line, so that it is another position than that of any caller:
// the compiler ignores a call from a position to itself.
func (b *builder) add(e edge, weight int64) {
	callee := frame{function: e.callee, start: b.starts[e.callee]}
	b.out.Sample = append(b.out.Sample, &profile.Sample{
		Location: []*profile.Location{b.location(callee), b.location(e.caller)}, Value: []int64{weight},
	})
}

func (b *builder) location(f frame) *profile.Location {
	if known := b.locations[f]; known != nil {
		return known
	}
	l := &profile.Location{
		ID: uint64(len(b.out.Location) + 1), Line: []profile.Line{{Function: b.function(f), Line: f.line}},
	}
	b.out.Location = append(b.out.Location, l)
	b.locations[f] = l
	return l
}

func (b *builder) function(f frame) *profile.Function {
	if known := b.functions[f.function]; known != nil {
		return known
	}
	fn := &profile.Function{
		ID: uint64(len(b.out.Function) + 1), Name: f.function, SystemName: f.function, StartLine: f.start,
	}
	b.out.Function = append(b.out.Function, fn)
	b.functions[f.function] = fn
	return fn
}

// encode returns the profile as a file, compressed.
func encode(p *profile.Profile) ([]byte, error) {
	var out bytes.Buffer
	err := p.Write(&out)
	return out.Bytes(), err
}
