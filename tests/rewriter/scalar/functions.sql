i2 + i2
i2 * i2
i4 + i4
i4 - 1
i4 * i4
i4 * i2 + i2
i8 + i8
i8 * i8
i8 - i4 * 2
-i4
-i8
abs(i2)
abs(i8)
i4 / i2
i8 / -1
i4 / 0
i4 % i2
i8 % 7
mod(i4, 10)
i4 + 0.5
i4 * 1.5 - n
n + n
n * n
m * 3 - 1.5
m % 7
m / 4
m / 0.1
f + f
f - 1
f * f
f * 1e200
f / 3
f / f
f / 0.0
1 / f
f * f + f
r + r
r * r
r / 3
r + f
-f
abs(f)
i4 * f
n * f
f + n
floor(f)
ceil(f)
floor(n)
ceil(m)
floor(i4 / 10.0)
floor(m / 10) * 10
round(f)
round(n)
round(m, 1)
round(n, 3)
round(i4)
round(f::numeric, 2)
trunc(f)
trunc(n)
trunc(m, 1)
sign(f)
sign(m)
sign(i4)
sqrt(f)
sqrt(i4)
ln(f)
ln(i4)
log(f)
log(i4)
exp(f)
exp(i2)
power(f, 2)
power(f, 0.5)
power(f, -1)
power(f, 3)
power(i4, 2)
f ^ 2
greatest(i4, i2)
greatest(i4, m, 5)
least(f, 1)
greatest(s, z)
least(d, e)
width_bucket(f, 0, 10, 5)
width_bucket(m, 0, 100, 4)
width_bucket(i4, -10, 10, 4)
i4::smallint
i8::int
f::int
f::bigint
n::int
n::bigint
m::int
r::int
b::int
i4::bigint
i4::numeric
i4::float8
n::float8
f::numeric > 1
f::numeric(10,2)
n::numeric(10,2)
m::numeric(5,1)
f::real
s::varchar(3)
i4::text
d::text
ts::text
b::text
d::timestamp
ts::date
date(ts)
d + 1
d - 30
d - e
d + i4
ts - tu
d + interval '1 day'
ts + interval '1 month'
ts - interval '90 minutes'
d - interval '1 year 2 months'
extract(year from d)
extract(month from ts)
extract(week from d)
extract(isodow from d)
extract(dow from ts)
extract(doy from ts)
extract(quarter from d)
extract(isoyear from d)
extract(hour from ts)
extract(minute from tm)
extract(second from ts)
extract(second from tm)
extract(epoch from ts)
extract(epoch from d)
extract(decade from d)
extract(century from ts)
extract(epoch from ts - tu)
extract(day from ts - tu)
extract(hour from ts - tu)
extract(year from age(d, e))
extract(month from age(ts, tu))
floor(extract(year from age(d, date '2020-02-29')) / 10) * 10
date_trunc('month', ts)
date_trunc('week', d)
date_trunc('second', ts)
date_trunc('quarter', d)
to_char(ts, 'YYYY-MM')
to_char(d, 'YYYY-MM-DD')
to_char(ts, 'HH24:MI:SS')
to_char(ts, 'yyyy-mm-dd hh24:mi:ss')
to_char(d, 'YYYY/mm ddd')
date_trunc('MONTH', ts)
date_trunc('Week', d)
make_date(extract(year from d)::int, extract(month from e)::int, extract(day from ts)::int)
make_date(i4, i2, 1)
lower(s)
upper(s)
length(s)
char_length(s)
trim(s)
ltrim(s)
rtrim(s, 'c')
btrim(s, 'ab')
s || z
s || '-' || i4
concat(s, z, 1)
substring(s, 2, 2)
substring(s, -1, 3)
substring(s from 2)
substr(s, i2, i2)
left(s, 2)
left(s, -1)
right(s, 2)
right(s, i2)
position('b' in s)
strpos(s, z)
replace(s, 'a', 'xyz')
replace(s, '', 'x')
split_part(s, ',', 2)
split_part(s, ',', -1)
starts_with(s, 'a')
lpad(s, 4, '0')
lpad(s, 2)
rpad(s, 7, 'é-')
lpad(i4::text, 12, ' ')
rpad(lpad(s, 3, 'xyz'), 100, '.')
s ^@ z
regexp_replace(s, '[a-z]+', '#')
regexp_replace(s, '[0-9]', '', 'g')
s ~ '^[A-Z]'
s ~ 'a.c|k$'
s ~ 'e.b'
s ~* '^AB?c'
s !~ '\d+'
s ~ '^(a|b){1,3}$'
s like 'a%'
s like '%\_%'
s like 'a#%%' escape '#'
s not like '%b%'
s ilike 'AB%'
s ilike '%é'
i4 = any(array[1, 2, 3])
s <> all(array['abc', 'x'])
i4 < any(array[0, 2])
i4 >= all(array[1, 2, null])
i4 <> any(array[1, 2])
i4 = some(array[7, null])
not f = any(array[2.5, null])
s like any(array['a%', '%b', null])
s not like all(array['a%', 'x%'])
s ilike all(array['A%', '%C'])
i4 between symmetric 10 and -10
i4 not between 1 and 5
case i4 when 2 then 'two' when 3 then 'three' else 'more' end
case when b then 1 when not b then 2 end
case when i4 > 0 then m else f end
coalesce(i4, m)
coalesce(f, n, 1)
nullif(i4, 2)
nullif(m, i4)
nullif(s, '')
nullif(i4 IS NULL, s = '')
nullif(s = 'a', i4 > 2)
s is distinct from z
i4 is not distinct from i2
i4 > m
i4 >= m
m <= f
n > f
f = r
m = 19.99
f > 0.1
i8 = i4
d < ts
d between '2024-01-01' and '2024-12-31'
ts > '2024-01-01 12:00:00'
tm > '10:00:00'
s < z
s = 'ABC'
b is true
b is not true
b is unknown
not b
b and i4 > 0
i4 in (1, 2, 2147483647)
n in (4.5, 2.5)
(i4 + 1) > 0 or b
i4 is null
f = 'NaN'
f > 1e300
date_part('year', ts)
date_part('dow', d)
date_part('epoch', ts)
date_part('year', age(ts, timestamp '2020-02-29'))
round(i4, -1)
round(i8, 2)
round(n, -2)
trunc(i8, -3)
trunc(m, -1)
pow(i4, 2)
ceiling(f)
s NOT LIKE 'a#%%' ESCAPE '#'
(i4 > 5) IS UNKNOWN
(i4 > 5) IS NOT UNKNOWN
char_length(s) + length(s)
mod(i4, 7) + i4 % 3
date_trunc('month', tz)
date_trunc('day', tz)::date
date_trunc('month', d)::date
tz::date
tz::timestamp
tz AT TIME ZONE 'UTC'
ts AT TIME ZONE 'UTC'
(tz AT TIME ZONE 'utc')::date
date_trunc('week', tz AT TIME ZONE 'UTC')
to_char(tz, 'YYYY-MM-DD HH24:MI')
tz + interval '1 month'
tz - interval '90 minutes'
tz - ts
EXTRACT(epoch FROM tz - ts)
EXTRACT(hour FROM tz AT TIME ZONE 'UTC')
tz > ts
tz >= date_trunc('month', ts)
CASE WHEN tz::date > d THEN 1 ELSE 0 END
tz AT TIME ZONE 'Asia/Tokyo'
ts AT TIME ZONE 'Asia/Tokyo'
timezone('Etc/GMT+5', tz)
date_trunc('month', tz, 'Etc/GMT-14')
date_trunc('MONTH', d, 'Etc/GMT+12')
to_char(tz AT TIME ZONE 'Etc/GMT+5', 'YYYY-MM-DD')
d::timestamptz
ts::timestamptz
EXTRACT(year FROM age(tz, timestamp '2001-03-01'))
EXTRACT(month FROM age(tz, ts))
EXTRACT(month FROM age(ts, tz))
to_char(ts, 'FMMonth YYYY')
to_char(ts, 'DD Mon YY, Day DY dy')
to_char(tz, 'YYYY"-Q"Q IYYY-"W"IW FMIW')
to_char(d, 'Month|MONTH|month|FMday|FMDD.FMMM.FMYYYY')
to_char(ts, 'HH12:MI:SS am HH24 PM hh')
to_char(ts, 'D ID DDD FMDDD WW W')
to_char(tz AT TIME ZONE 'Etc/GMT+5', 'Mon')
date_bin('15 minutes', ts, timestamp '2001-01-01')
date_bin('1 day 30 minutes', tz, timestamp '2024-12-30 12:00:00')
date_bin('7 days', ts, '2024-01-01')
date_bin('1 second', tu, '2024-01-01 00:00:00.25')
date_bin('3000 days', ts, '9999-12-31 23:59:59')
s SIMILAR TO '(a|A)%'
s NOT SIMILAR TO '_{3}'
s SIMILAR TO '%[0-9]+'
s SIMILAR TO 'a#%b#_c%' ESCAPE '#'
s NOT SIMILAR TO '[A-Z]{2,}|%\.%' ESCAPE '!'
EXTRACT(month FROM date_bin('10 days', ts, timestamp '2001-01-01'))
'Q' || EXTRACT(quarter FROM d)
concat(EXTRACT(hour FROM tm), ':', EXTRACT(minute FROM tm))
EXTRACT(dow FROM tz)::text
EXTRACT(minute FROM tm)::varchar(1)
EXTRACT(day FROM ts - tu)::text
date_part('year', d) || ' / ' || date_part('doy', ts)
(EXTRACT(year FROM d) * 100 + EXTRACT(month FROM d))::text
concat(floor(i4 / 10) * 10, '-', floor(i4 / 10) * 10 + 9)
floor(i8)::text
floor(i4 / 10.0) * -10 || 's'
round(n)::text
round(m, -1) || ''
concat(trunc(i4 / 3.0), ceil(i4 / 7.0) - 1)
s || d
ts || ' ' || d
concat_ws('-', s, z, i4)
concat_ws(', ', NULL, s, i2)
concat_ws('', z, EXTRACT(hour FROM tm), s || z)
concat_ws('|', s)
ts::time
tz::time
ts::time between '09:00' and '17:30:00.5'
(tz AT TIME ZONE 'Asia/Tokyo')::time > tm
EXTRACT(hour FROM CAST(ts AS time)) * 60 + EXTRACT(minute FROM ts::time)
regexp_replace(s, '^.*,', '')
regexp_replace(s, '[?, ].*$', '')
regexp_replace(s, '^a+b*.*$', '<>')
regexp_replace(s, 'b?c.+', '')
regexp_replace(s, '^ab?c', '')
regexp_replace(s, 'ab*c', '+', 'g')
to_char(ts, 'HH24:00')
to_char(d, 'YYYY-MM-01 00')
to_char(ts, 'YYYY0DDD1 2SS3')
to_char(ts, 'MI5Q7')
log10(f)
LOG10(i4)
cbrt(f)
cbrt(n)
cbrt(i8)
num_nulls(s, m, i4)
num_nonnulls(s, b, nullif(i4, 0)) > 1
ascii(s)
to_timestamp(i8)
to_timestamp(f)
to_timestamp(n)
to_timestamp(i4 / 7.0)
date_trunc('month', to_timestamp(i4))::date
EXTRACT(hour FROM to_timestamp(r * 100000))
to_char(to_timestamp(i8 / 1000) AT TIME ZONE 'Asia/Tokyo', 'YYYY-MM-DD HH24:MI')
substring(s from '[a-z]+')
substring(s, '^x?-1')
SUBSTRING(s FROM '([A-Z]),')
substring(s from '^[^,]*,([a-z]*)')
substring(s from 'e(.)')
substring(s from ' *a')
substring(s from '(.)$')
substring(s from '\d+ (\d\d)')
regexp_replace(s, '^x?-[0-9]+_', '')
md5(s)
left(md5(lower(s)), 8)
i4 & 4 > 0
i2 & i8
i4 | i8 & 1
i4 # -1
(i8 # i4 | 3) + 1
i2 & -2 # i2
i4 # i2 & 3
position(lower(z) in upper(s))
s between lower(z) and upper(z)
lower(s) between upper(z) || 'a' and z
upper(s) is distinct from lower(z)
upper(s) in (lower(z), z)
upper(s) like 'A%'
substring(upper(s) from 2 for 2)
trim(both 'x' from upper(s))
split_part(upper(s), ',', 1)
replace(upper(s), 'A', 'b')
lpad(upper(s), 3, 'x')
starts_with(upper(s), 'A')
upper(s) ~ '^A'
left(upper(s), 2) || lower(z)
concat_ws('-', upper(s), lower(z))
greatest(upper(s), lower(z))
nullif(upper(s), lower(z))
length(upper(s))
ascii(upper(s))
upper(s) between symmetric lower(z) and z
case upper(s) when lower(z) then 1 end
upper(s) = any (array['A', 'B'])
upper(s) is null
regexp_replace(upper(s), '^A', 'b')
b between (s is null) and b
tz between (ts at time zone 'Asia/Tokyo') and tz
ts between (tz at time zone 'UTC') and ts
b between (s like 'a%') and (not b)
b between (i4 in (1, 2)) and (b or b)
position((s || z) in (upper(s) || z))
i4 between (i2 & 3) and i8
b between (i4 between 1 and 3) and b
abs(nullif(-2147483648, i4))
-(case when b then -9223372036854775808 end)
(case when b then -9223372036854775808 end) * 2
case when b then d else coalesce(ts, tz) end
nullif(d, ts)
