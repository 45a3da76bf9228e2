graph [
  directed 0
  Network "Alps"
  Creator "after the manner of the Topology Zoo"
  node [
    id 0
    label "Wien"
    Country "Austria"
    Longitude 16.37208
    Internal 1
    Latitude 48.20849
  ]
  node [
    id 1
    label "Graz"
    Country "Austria"
    Longitude 15.45
    Internal 1
    Latitude 47.06667
  ]
  node [
    id 2
    label "Exchange"
    Internal 0
  ]
  node [
    id 3
    label "Exchange"
    Country "Austria"
    Longitude 13.04399
    Internal 1
    Latitude 47.79941
  ]
  edge [
    source 0
    target 1
    LinkSpeed "1"
    LinkSpeedUnits "G"
    LinkSpeedRaw 1000000000.0
  ]
  edge [
    source 0
    target 1
    LinkSpeed "10"
    LinkLabel "10 Gbit/s"
    LinkSpeedUnits "G"
    LinkSpeedRaw 10000000000.0
  ]
  edge [
    source 0
    target 2
    LinkSpeed "622"
    LinkSpeedUnits "M"
  ]
  edge [
    source 1
    target 2
    LinkLabel "Fiber"
  ]
  edge [
    source 0
    target 3
    LinkLabel "Fiber"
  ]
]
