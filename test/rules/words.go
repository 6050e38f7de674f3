package rules

import (
	"fmt"
	"path"
	"regexp"
)

// bannedText is text that has no place in the repository.
type bannedText struct {
	what string
	form *regexp.Regexp
}

// bannedTexts are spelled so that this file does not contain the words that it looks for.
var bannedTexts = []bannedText{
	{"note to self", regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b`)},
	{"bare ticket number", regexp.MustCompile(`(?:^|[\s(\[])#` + `[0-9]+\b`)},
	{"path of one machine", regexp.MustCompile(`(?:^|[^\w.$}/-])/(?:wo` + `rk|ro` + `ot|ho` + `me/\w+)/`)},
	{"registry of one machine", regexp.MustCompile(`\bGOPR` + `OXY\b|\bGONOSU` + `MDB\b|proxy\.gol` + `ang\.org`)},
	{
		"word about how this was made",
		regexp.MustCompile(`(?i)\b(walking ske` + `leton|later iss` + `ue|this iss` + `ue will|in a later ses` + `sion)\b`),
	},
}

// quotingFiles are files that quote foreign text or list checksums.
var quotingFiles = map[string]bool{"go.sum": true, "LICENSE": true, "package-lock.json": true, "go.work.sum": true}

func wordRules() []Rule {
	return []Rule{{
		Name: "words",
		Why: "the text says what is true for every reader on every machine: do it now or leave it out; " +
			"name public discussions as owner/repository#number",
		Check: checkWords,
	}}
}

func checkWords(repo *Repo) []Finding {
	var found []Finding
	for _, file := range repo.Text {
		if quotingFiles[path.Base(file.Path)] {
			continue
		}
		for i, line := range file.Lines {
			found = append(found, bannedTextsIn(file.Path, i+1, line)...)
		}
	}
	return found
}

func bannedTextsIn(name string, number int, line string) []Finding {
	var found []Finding
	for _, w := range bannedTexts {
		if match := w.form.FindString(line); match != "" {
			found = append(found, Finding{Path: name, Line: number, Detail: fmt.Sprintf("%s: %q", w.what, match)})
		}
	}
	return found
}
