// Go: pgx and its pool. Notes what came of each action in a file: see ../actions.py.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"runtime"
	"time"

	"github.com/jackc/pgx/v4"
	"github.com/jackc/pgx/v4/pgxpool"
)

var background = context.Background()
var connection *pgx.Conn
var declared []string
var acts = map[string]func() error{}

func action(name string, act func() error) {
	declared = append(declared, name)
	acts[name] = act
}

func near(found, wanted float64) error {
	if math.Abs(found-wanted) > 100 {
		return fmt.Errorf("%v is not %v", found, wanted)
	}
	return nil
}

func counted(text string, values ...interface{}) (float64, error) {
	var n int64
	err := connection.QueryRow(background, text, values...).Scan(&n)
	return float64(n), err
}

func is(wanted float64, text string, values ...interface{}) error {
	n, err := counted(text, values...)
	if err != nil {
		return err
	}
	return near(n, wanted)
}

const byAge = "SELECT age, COUNT(*) AS n FROM app.users GROUP BY age"
const older = "SELECT COUNT(*) FROM app.users WHERE age > $1"

func declare(url string) {
	action("connect", func() (err error) {
		connection, err = pgx.Connect(background, url)
		return err
	})
	action("QueryRow and Scan", func() error { return is(4000, "SELECT COUNT(*) FROM app.users") })
	action("parameters", func() error { return is(2000, older, 57) })
	action("IN of two parameters", func() error {
		return is(2000, "SELECT COUNT(*) FROM app.users WHERE country IN ($1,$2)", "DE", "US")
	})
	action("= ANY of a slice", func() error {
		return is(2000, "SELECT COUNT(*) FROM app.users WHERE country = ANY($1)", []string{"DE", "US"})
	})
	action("simple protocol", func() error {
		return is(1000, "SELECT COUNT(*) FROM app.users WHERE age>$1 AND country IN ($2,$3)", pgx.QuerySimpleProtocol(true), 57, "DE", "US")
	})
	action("Query and rows", func() error {
		rows, err := connection.Query(background, byAge)
		if err != nil {
			return err
		}
		defer rows.Close()
		total := int64(0)
		for rows.Next() {
			var age int32
			var n int64
			if err := rows.Scan(&age, &n); err != nil {
				return err
			}
			total += n
		}
		return near(float64(total), 4000)
	})
	action("times and numerics", func() error {
		var month time.Time
		var mean float64
		text := "SELECT DATE_TRUNC('month', ts), AVG(amount) FROM app.events GROUP BY 1 ORDER BY 1 LIMIT 1"
		return connection.QueryRow(background, text).Scan(&month, &mean)
	})
	action("Prepare", func() error {
		described, err := connection.Prepare(background, "older", older)
		if err != nil || len(described.Fields) != 1 {
			return fmt.Errorf("%v", err)
		}
		return is(2000, "older", 57)
	})
	action("a batch", func() error {
		batch := &pgx.Batch{}
		for age := 20; age < 25; age++ {
			batch.Queue(older, age)
		}
		results := connection.SendBatch(background, batch)
		defer results.Close()
		var n int64
		for age := 20; age < 25; age++ {
			if err := results.QueryRow().Scan(&n); err != nil {
				return err
			}
		}
		return near(float64(n), 3650)
	})
	action("a transaction with a savepoint", func() error {
		return connection.BeginFunc(background, func(outer pgx.Tx) error {
			refused := outer.BeginFunc(background, func(inner pgx.Tx) error {
				_, err := inner.Exec(background, "SELECT * FROM app.users")
				return err
			})
			if refused == nil {
				return fmt.Errorf("rows were answered")
			}
			var n int64
			return outer.QueryRow(background, "SELECT COUNT(*) FROM app.users").Scan(&n)
		})
	})
	action("a pool", func() error {
		pool, err := pgxpool.Connect(background, url)
		if err != nil {
			return err
		}
		defer pool.Close()
		ended := make(chan error, 4)
		for n := 0; n < 4; n++ {
			go func(age int) {
				var found int64
				ended <- pool.QueryRow(background, older, age).Scan(&found)
			}(60 + n)
		}
		for n := 0; n < 4; n++ {
			if err := <-ended; err != nil {
				return err
			}
		}
		return nil
	})
	action("a timeout of the context", func() error {
		limited, cancel := context.WithTimeout(background, time.Minute)
		defer cancel()
		var n int64
		return connection.QueryRow(limited, older, 70).Scan(&n)
	})
	action("CopyTo", func() error {
		text := "COPY (SELECT country, COUNT(*) FROM app.users GROUP BY country) TO STDOUT"
		tag, err := connection.PgConn().CopyTo(background, os.Stdout, text)
		if err == nil && tag.RowsAffected() != 4 {
			return fmt.Errorf("%v", tag)
		}
		return err
	})
	action("rows of a table", func() error {
		_, err := connection.Exec(background, "SELECT * FROM app.users LIMIT 5")
		return err
	})
	action("CopyFrom", func() error {
		rows := pgx.CopyFromRows([][]interface{}{{int32(99), "new"}})
		_, err := connection.CopyFrom(background, pgx.Identifier{"app", "articles"}, []string{"article_id", "title"}, rows)
		return err
	})
}

func main() {
	file, err := os.OpenFile(os.Args[2], os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		panic(err)
	}
	notes := json.NewEncoder(file)
	notes.Encode(map[string]interface{}{"versions": map[string]string{"pgx": "4", "go": runtime.Version()[2:]}})
	declare(os.Args[1])
	for _, name := range declared {
		line := map[string]interface{}{"action": name, "error": nil}
		if err := acts[name](); err != nil {
			line["error"] = err.Error()
		}
		notes.Encode(line)
	}
}
