package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/caarlos0/env/v11"

	"github.com/hookonce/hookonce/pkg/source"
)

// variables returns the environment by name, the values as they are.
func variables(environ []string) map[string]string {
	vars := env.ToMap(environ)
	delete(vars, "") // the library would look here for fields without a name
	return vars
}

// mistakes collects what is wrong with variables: of each, the first thing.
type mistakes struct {
	errs  []error
	about map[string]bool
}

func (m *mistakes) when(wrong bool, variable, message string) {
	if wrong && !m.about[variable] {
		m.about[variable] = true
		m.errs = append(m.errs, fmt.Errorf("%s: %s", variable, message))
	}
}

func (m *mistakes) err() error { return errors.Join(m.errs...) }

// read sets what c, a pointer to a struct, takes from the environment. A
// variable that is empty counts as not set, and white space around it is cut.
func read(vars map[string]string, c any) *mistakes {
	trimmed := make(map[string]string, len(vars))
	for name, value := range vars {
		trimmed[name] = strings.TrimSpace(value)
	}
	m := &mistakes{about: map[string]bool{}}
	if all, ok := errors.AsType[env.AggregateError](env.ParseWithOptions(c, env.Options{Environment: trimmed})); ok {
		known := settings(reflect.TypeOf(c).Elem())
		for _, err := range all.Errors {
			m.explain(err, known)
		}
	}
	return m
}

// explain says a problem of the library in terms of the variable. It repeats
// nothing that the library says, since that quotes the value.
func (m *mistakes) explain(err error, known []setting) {
	for _, s := range known {
		if e, ok := errors.AsType[env.ParseError](err); ok {
			m.when(e.Name == s.field, s.name, "want "+s.want())
		} else if e, ok := errors.AsType[env.VarIsNotSetError](err); ok {
			m.when(e.Key == s.name, s.name, "must be set: "+s.help)
		} else if e, ok := errors.AsType[env.EmptyVarError](err); ok {
			m.when(e.Key == s.name, s.name, "must not be empty: "+s.help)
		} else {
			m.when(true, "environment", fmt.Sprintf("%T", err)) // a mistake in our tags
		}
	}
}

// A setting is what the tags of a field say.
type setting struct {
	field    string
	kind     reflect.Type
	name     string // of the variable
	value    string // if the variable is not set
	required bool
	help     string
}

// settings lists those of a struct, in its order.
func settings(t reflect.Type) []setting {
	var all []setting
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("env"), ",")
		switch {
		case name == "-":
		case name != "":
			all = append(all, setting{
				field:    f.Name,
				kind:     f.Type,
				name:     name,
				value:    f.Tag.Get("envDefault"),
				required: strings.Contains(options, "required"),
				help:     f.Tag.Get("help"),
			})
		case f.Type.Kind() == reflect.Struct:
			all = append(all, settings(f.Type)...)
		}
	}
	return all
}

// want says what can be parsed.
func (s setting) want() string {
	switch s.kind {
	case reflect.TypeFor[time.Duration]():
		return "a duration such as " + s.value
	case reflect.TypeFor[slog.Level]():
		return s.help
	case reflect.TypeFor[bool]():
		return "true or false"
	case reflect.TypeFor[Size]():
		return "a number of bytes such as " + s.value
	}
	return "a whole number such as " + s.value
}

// Help writes a table of the settings in v, which is Ingest{} or Worker{}.
func Help(w io.Writer, v any) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tDEFAULT\tMEANING")
	for _, s := range settings(reflect.Indirect(reflect.ValueOf(v)).Type()) {
		value := s.value
		if s.required {
			value = "must be set"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", s.name, value, s.help)
	}
	table.Flush()
}

// Of the sources file.
const (
	defaultFile = "hookonce.yaml"
	maxFile     = 1 << 20 // bytes
)

// readSources reads the sources from *file. If that is "", it is set to the
// default file if there is one; else the only source is the default one. The
// warnings are what is not wrong, and should be known.
func readSources(file *string, vars map[string]string, handlers []string) (sources []source.Source, warnings []string, err error) {
	name := *file
	if name == "" {
		name = defaultFile
	}
	data, err := readFile(name)
	if *file == "" && errors.Is(err, fs.ErrNotExist) {
		return []source.Source{source.Default()}, nil, nil
	}
	*file = name
	if err != nil {
		return nil, nil, fmt.Errorf("sources file (HOOKONCE_CONFIG): %w", err)
	}
	return parseSources(name, data, func(name string) (string, bool) {
		value, ok := vars[name]
		return value, ok
	}, handlers)
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("read %s: is larger than 1 MiB", name)
	}
	return data, err
}
