package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"regexp"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	// width and height of a picture, which fits the column of a rendered document.
	width, height = 16 * vg.Centimeter, 9 * vg.Centimeter
	lineWidth     = vg.Length(1.5)
	dotRadius     = vg.Length(2)
	// fewPoints is up to how many points each is marked.
	fewPoints = 12
)

// Plot is one picture.
type Plot struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	X     Axis   `json:"x"`
	Y     Axis   `json:"y"`
	Lines []Line `json:"lines"`
}

// Axis is what is on one.
type Axis struct {
	Label string `json:"label"`
	Log   bool   `json:"log"`
}

// Line is points that are connected.
type Line struct {
	Name   string       `json:"name"`
	Points [][2]float64 `json:"points"`
}

func main() {
	if err := mainErr(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "plot:", err)
		os.Exit(1)
	}
}

func mainErr(args []string) error {
	set := flag.NewFlagSet("plot", flag.ContinueOnError)
	in := set.String("in", "", "file with a JSON list of plots")
	out := set.String("out", "", "directory that gets <name>.svg of each")
	if err := set.Parse(args); err != nil {
		return err
	}
	raw, err := os.ReadFile(*in)
	if err != nil {
		return fmt.Errorf("--in: %w", err)
	}
	var plots []Plot
	if err := json.Unmarshal(raw, &plots); err != nil {
		return fmt.Errorf("--in: %s: %w: want a list of plots", *in, err)
	}
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	for _, p := range plots {
		picture, err := draw(p)
		if err != nil {
			return fmt.Errorf("plot %q: %w", p.Name, err)
		}
		if err := os.WriteFile(filepath.Join(*out, p.Name+".svg"), picture, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// fileName is what a name may be made of.
var fileName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`)

// draw makes the picture of a plot.
func draw(in Plot) ([]byte, error) {
	if !fileName.MatchString(in.Name) {
		return nil, fmt.Errorf("name: want lower-case letters, digits, dots and dashes")
	}
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = in.Title, in.X.Label, in.Y.Label
	p.BackgroundColor = color.White // a dark page would swallow the letters
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	scale(&p.X, in.X)
	scale(&p.Y, in.Y)
	drawn := 0
	for i, l := range in.Lines {
		points := visible(l.Points, in.X.Log, in.Y.Log)
		if len(points) == 0 {
			continue
		}
		drawn++
		if err := add(p, i, l.Name, points); err != nil {
			return nil, fmt.Errorf("line %q: %w", l.Name, err)
		}
	}
	if drawn == 0 {
		return nil, fmt.Errorf("lines: none has a point that can be drawn")
	}
	if !in.Y.Log {
		p.Y.Min = min(0, p.Y.Min)
	}
	canvas := vgsvg.New(width, height)
	p.Draw(vgdraw.New(canvas))
	var b bytes.Buffer
	_, err := canvas.WriteTo(&b)
	return b.Bytes(), err
}

// add draws one line, with its points marked where there are few.
func add(p *plot.Plot, i int, name string, points plotter.XYs) error {
	line, dots, err := plotter.NewLinePoints(points)
	if err != nil {
		return err
	}
	line.Color, line.Width = plotutil.Color(i), lineWidth
	line.Dashes = plotutil.Dashes(i / len(plotutil.DefaultColors))
	p.Add(line)
	if len(points) <= fewPoints {
		dots.Color, dots.Shape, dots.Radius = plotutil.Color(i), plotutil.Shape(0), dotRadius
		p.Add(dots)
	}
	p.Legend.Add(name, line)
	return nil
}

func scale(axis *plot.Axis, a Axis) {
	if a.Log {
		axis.Scale, axis.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
}

// visible are the points that a logarithm can be taken of, where one is.
func visible(points [][2]float64, logX, logY bool) plotter.XYs {
	var out plotter.XYs
	for _, p := range points {
		if logX && p[0] <= 0 || logY && p[1] <= 0 {
			continue
		}
		out = append(out, plotter.XY{X: p[0], Y: p[1]})
	}
	return out
}
