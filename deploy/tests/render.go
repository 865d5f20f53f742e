// Renders the chart as Helm does, which uses this same template engine, so that it can be checked
// without Helm: go run render.go CHART <CONTEXT.json. The context has Values (merged), Release and
// Chart. Only the functions in `functions` exist: the chart may use no others.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"text/template"
)

func main() {
	if err := render(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func render(chart string) error {
	var context map[string]any
	if err := json.NewDecoder(os.Stdin).Decode(&context); err != nil {
		return err
	}
	paths, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	if err != nil {
		return err
	}
	// A value that values.yaml does not have is a mistake; Helm would print nothing.
	all := template.New("chart").Option("missingkey=error")
	all.Funcs(functions(all))
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if _, err := all.New(filepath.Base(path)).Parse(string(text)); err != nil {
			return err
		}
	}
	for _, path := range paths {
		if !strings.HasSuffix(path, ".yaml") {
			continue
		}
		fmt.Printf("---\n# Source: %s\n", filepath.Base(path))
		if err := all.ExecuteTemplate(os.Stdout, filepath.Base(path), context); err != nil {
			return err
		}
		fmt.Println()
	}
	return nil
}

func functions(all *template.Template) template.FuncMap {
	return template.FuncMap{
		"include": func(name string, with any) (string, error) {
			var out bytes.Buffer
			err := all.ExecuteTemplate(&out, name, with)
			return out.String(), err
		},
		"toYaml": func(value any) string { return strings.TrimSuffix(yaml(value, 0), "\n") },
		"nindent": func(spaces int, text string) string {
			pad := strings.Repeat(" ", spaces)
			return "\n" + pad + strings.ReplaceAll(text, "\n", "\n"+pad)
		},
		"quote":      func(value any) string { return fmt.Sprintf("%q", fmt.Sprint(value)) },
		"sha256sum":  func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) },
		"trunc":      func(length int, text string) string { return text[:min(length, len(text))] },
		"trimSuffix": func(suffix, text string) string { return strings.TrimSuffix(text, suffix) },
		"hasPrefix":  func(prefix, text string) bool { return strings.HasPrefix(text, prefix) },
		"fail":       func(message string) (string, error) { return "", errors.New(message) },
		"required": func(message string, value any) (any, error) {
			if value == nil || value == "" {
				return nil, errors.New(message)
			}
			return value, nil
		},
		"default": func(other, value any) any {
			if truth, _ := template.IsTrue(value); truth {
				return value
			}
			return other
		},
		"int": func(value any) int { return whole(value) },
		"add": func(values ...any) int {
			sum := 0
			for _, value := range values {
				sum += whole(value)
			}
			return sum
		},
		"dict": func(pairs ...any) map[string]any {
			made := map[string]any{}
			for at := 0; at+1 < len(pairs); at += 2 {
				made[pairs[at].(string)] = pairs[at+1]
			}
			return made
		},
	}
}

func min(a, b int) int {
	if a < b {
		return a
	}
	return b
}

// Numbers in values are floats, here as in Helm.
func whole(value any) int {
	switch number := value.(type) {
	case int:
		return number
	case float64:
		return int(number)
	}
	return 0
}

var plain = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9_./-]*$`)
var words = regexp.MustCompile(`^(?i:true|false|yes|no|on|off|null|y|n)$`)

// Keys are sorted and lists stand below their key, as Helm writes them.
func yaml(value any, depth int) string {
	pad := strings.Repeat("  ", depth)
	switch value := value.(type) {
	case map[string]any:
		if len(value) == 0 {
			return "{}\n"
		}
		keys := make([]string, 0, len(value))
		for key := range value {
			keys = append(keys, key)
		}
		sort.Strings(keys)
		var out strings.Builder
		for _, key := range keys {
			inner := yaml(value[key], depth)
			switch below := value[key].(type) {
			case map[string]any:
				if len(below) > 0 {
					inner = "\n" + yaml(below, depth+1)
				}
			case []any:
				if len(below) > 0 {
					inner = "\n" + inner
				}
			}
			out.WriteString(pad + scalar(key) + ":" + strings.TrimSuffix(" "+inner, "\n") + "\n")
		}
		return strings.ReplaceAll(out.String(), ": \n", ":\n")
	case []any:
		if len(value) == 0 {
			return "[]\n"
		}
		var out strings.Builder
		for _, item := range value {
			out.WriteString(pad + "- " + strings.TrimPrefix(yaml(item, depth+1), pad+"  "))
		}
		return out.String()
	}
	return scalar(value) + "\n"
}

func scalar(value any) string {
	text, isText := value.(string)
	if isText && plain.MatchString(text) && !words.MatchString(text) {
		return text
	}
	encoded, _ := json.Marshal(value)
	return string(encoded)
}
