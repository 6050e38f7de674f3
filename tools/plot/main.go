package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	// width and height of an image, which fits the column of a rendered document.
	width, height = 19 * vg.Centimeter, 9.5 * vg.Centimeter
	// margin is around everything; at the right a label at an axis's end needs more.
	margin, wideMargin = 0.2 * vg.Centimeter, 0.5 * vg.Centimeter
	titleHeight        = 0.8 * vg.Centimeter
	// wider is by how much the letters of a machine without the font may be wider than it.
	wider = 1.15
	// family is the font that letters are measured in. Arial and Helvetica are as wide.
	family    = "font-family:Liberation Sans"
	lineWidth = vg.Length(1.5)
	dotRadius = vg.Length(2)
	// fewPoints is up to how many points each is marked.
	fewPoints = 12
)

// Plot is one image.
type Plot struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	X     Axis   `json:"x"`
	Y     Axis   `json:"y"`
	Lines []Line `json:"lines"`
}

// Axis describes an axis.
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
	out := set.String("out", "", "directory for the plots, as <name>.svg")
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

// fileName matches the names allowed for files.
var fileName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`)

// draw makes the image of a plot.
func draw(in Plot) ([]byte, error) {
	if !fileName.MatchString(in.Name) {
		return nil, fmt.Errorf("name: want lower-case letters, digits, dots and dashes")
	}
	p, legend := plot.New(), plot.NewLegend()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = in.Title, in.X.Label, in.Y.Label
	p.BackgroundColor = color.White // a dark page would swallow the letters
	for _, style := range []*text.Style{
		&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &legend.TextStyle,
	} {
		style.Font.Variant = "Sans"
	}
	p.Add(plotter.NewGrid())
	var drawn []plotter.XYs
	for i, l := range in.Lines {
		points := visible(l.Points, in.X.Log, in.Y.Log)
		if len(points) == 0 {
			continue
		}
		drawn = append(drawn, points)
		line, err := add(p, i, points)
		if err != nil {
			return nil, fmt.Errorf("line %q: %w", l.Name, err)
		}
		legend.Add(l.Name, line)
	}
	if len(drawn) == 0 {
		return nil, fmt.Errorf("lines: no line has a point to draw")
	}
	scale(&p.X, in.X)
	scale(&p.Y, in.Y)
	if !in.Y.Log {
		fromZero(&p.Y)
	}
	if at := few(drawn); at != nil && !in.X.Log {
		p.X.Tick.Marker = labels{plot.ConstantTicks(at)}
	}
	return picture(p, legend, len(drawn) > 1)
}

// picture puts the legend, if there is one, next to the plot: within it, the legend would cover the lines.
func picture(p *plot.Plot, legend plot.Legend, withLegend bool) ([]byte, error) {
	svg := vgsvg.New(width, height)
	all := vgdraw.New(svg)
	all.SetColor(p.BackgroundColor)
	all.Fill(all.Rectangle.Path())
	inner := vgdraw.Crop(all, margin, -wideMargin, margin, -margin)
	if withLegend {
		legend.Top, legend.Left = true, true
		legend.Padding = margin / 2
		rect := legend.Rectangle(inner)
		wide := (rect.Max.X - rect.Min.X) * wider
		legend.Draw(vgdraw.Crop(inner, inner.Max.X-inner.Min.X-wide, 0, 0, -titleHeight))
		inner = vgdraw.Crop(inner, 0, -wide-wideMargin, 0, 0)
	}
	p.Draw(inner)
	var b bytes.Buffer
	_, err := svg.WriteTo(&b)
	return bytes.ReplaceAll(b.Bytes(), []byte(family), []byte(family+", Arial, Helvetica, sans-serif")), err
}

// add draws one line, with its points marked where there are few.
func add(p *plot.Plot, i int, points plotter.XYs) (*plotter.Line, error) {
	line, dots, err := plotter.NewLinePoints(points)
	if err != nil {
		return nil, err
	}
	line.Color, line.Width = plotutil.Color(i), lineWidth
	line.Dashes = plotutil.Dashes(i / len(plotutil.DefaultColors))
	p.Add(line)
	if len(points) <= fewPoints {
		dots.Color, dots.Shape, dots.Radius = plotutil.Color(i), plotutil.Shape(0), dotRadius
		p.Add(dots)
	}
	return line, nil
}

// scale sets how values are spread. An axis that begins close to zero begins there. One with a single value has a range
// around it: the library's own would have the zero of a logarithm, or -1.
func scale(axis *plot.Axis, a Axis) {
	axis.Tick.Marker = labels{plot.DefaultTicks{}}
	if a.Log {
		axis.Scale, axis.Tick.Marker = plot.LogScale{}, labels{plot.LogTicks{Prec: -1}}
	}
	switch {
	case !a.Log && axis.Min > 0 && axis.Min < axis.Max/fewPoints:
		axis.Min = 0
	case axis.Min != axis.Max:
	case a.Log:
		axis.Min, axis.Max = axis.Min/10, axis.Max*10
	default:
		fromZero(axis)
	}
}

// fromZero has zero on an axis, and more than that.
func fromZero(axis *plot.Axis) {
	axis.Min, axis.Max = min(0, axis.Min), max(0, axis.Max)
	if axis.Min == axis.Max {
		axis.Max = 1
	}
}

// few are marks at the values on the x axis, if these are so few that each can have one.
func few(lines []plotter.XYs) []plot.Tick {
	var at []float64
	for _, points := range lines {
		for _, p := range points {
			at = append(at, p.X)
		}
	}
	slices.Sort(at)
	at = slices.Compact(at)
	ticks := make([]plot.Tick, len(at))
	for i, x := range at {
		if i > 0 && x-at[i-1] < (at[len(at)-1]-at[0])/fewPoints {
			return nil
		}
		ticks[i] = plot.Tick{Value: x, Label: "x"}
	}
	return ticks
}

// labels writes numbers as the documents do: 5,000 and not 5000.00.
type labels struct{ plot.Ticker }

// Ticks are the ticker's; those with a label get another.
func (l labels) Ticks(from, to float64) []plot.Tick {
	ticks := l.Ticker.Ticks(from, to)
	for i := range ticks {
		if ticks[i].Label != "" {
			ticks[i].Label = number(ticks[i].Value)
		}
	}
	return ticks
}

// number has no digits that rounding made, and commas between thousands.
func number(value float64) string {
	const places = 1e6
	whole, rest, found := strings.Cut(strconv.FormatFloat(math.Round(value*places)/places, 'f', -1, 64), ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if found {
		return whole + "." + rest
	}
	return whole
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
